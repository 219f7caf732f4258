// Returns JSON, as column E1 of the published load test does.
export default async ({ req, res }) => res.json({ hello: 'world', given: req.bodyJson })
