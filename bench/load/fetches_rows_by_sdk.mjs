// Fetches 25 rows by the official client, as column E2 of the published load test does.
import { Client, Query, TablesDB } from 'node-appwrite'

const { APPWRITE_FUNCTION_API_ENDPOINT, APPWRITE_FUNCTION_PROJECT_ID } = process.env

export default async ({ req, res }) => {
  const client = new Client()
    .setEndpoint(APPWRITE_FUNCTION_API_ENDPOINT)
    .setProject(APPWRITE_FUNCTION_PROJECT_ID)
    .setKey(req.headers['x-appwrite-key'])
  const rows = await new TablesDB(client).listRows({
    databaseId: 'bench_db',
    tableId: 'products',
    queries: [Query.limit(25)],
  })
  return res.json(rows)
}
