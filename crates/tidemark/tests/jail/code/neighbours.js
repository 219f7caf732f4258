// What one process does with requests that it gets together.
module.exports = ({ req, res }) => {
  const until = Date.now() + (req.path === '/busy' ? 20 : 0)
  while (Date.now() < until || req.path === '/loop');
  return res.text('done')
}
