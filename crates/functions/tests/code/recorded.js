// What the recorded conversation in `runtimes/frames` is held with.
module.exports = async ({ req, res, log, error }) => {
  if (req.path === '/wait') await new Promise(() => {})
  if (req.path === '/length') return res.text(String(req.bodyBinary.length))
  log('one', process.env.ONE)
  error('two')
  return res.text('logged', 201, { 'x-b': '2' })
}
