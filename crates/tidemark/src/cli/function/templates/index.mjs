// Called for each run, many at once. What `context` holds stands in the reference of functions.
export default async (context) => {
  const { req, res, log } = context
  log(`${req.method} ${req.path}`)
  const given = req.bodyText === '' ? {} : req.bodyJson
  return res.json({ hello: 'world', given })
}
