// Fetches 25 rows by HTTP alone: column E2 of the published load test without a client library.
const { APPWRITE_FUNCTION_API_ENDPOINT, APPWRITE_FUNCTION_PROJECT_ID } = process.env
const query = encodeURIComponent(JSON.stringify({ method: 'limit', values: [25] }))
const rows = `${APPWRITE_FUNCTION_API_ENDPOINT}/tablesdb/bench_db/tables/products/rows`

export default async ({ req, res }) => {
  const answer = await fetch(`${rows}?queries[0]=${query}`, {
    headers: {
      'x-appwrite-project': APPWRITE_FUNCTION_PROJECT_ID,
      'x-appwrite-key': req.headers['x-appwrite-key'],
    },
  })
  return res.json(await answer.json())
}
