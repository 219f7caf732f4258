// Called for each run, many at once. The reference of functions says what is in `context`.
export default async (context) => {
  const { req, res, log } = context
  log(`${req.method} ${req.path}`)
  const given = req.bodyText === '' ? {} : req.bodyJson
  return res.json({ hello: 'world', given })
}
