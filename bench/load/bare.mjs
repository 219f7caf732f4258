// The handler of a function behind one process of node:http: what `tidemark bench load` compares
// executions with. It takes the same requests as the route that executes the function.
//
//   KEY=… node bare.mjs HANDLER.mjs
//
// KEY is what the handler finds in its header x-appwrite-key.

import http from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const { default: handler } = await import(pathToFileURL(path.resolve(process.argv[2])).href)
const key = process.env.KEY ?? ''

const res = {
  json(value, statusCode = 200, headers = {}) {
    const typed = { ...headers, 'content-type': 'application/json' }
    return { body: JSON.stringify(value), statusCode, headers: typed }
  },
}

async function execute(received) {
  const { body, headers, method, path } = JSON.parse(received)
  const req = {
    method,
    path,
    headers: { ...headers, 'x-appwrite-key': key },
    bodyText: body,
    get bodyJson() { return JSON.parse(body) },
  }
  return await handler({ req, res, log() {}, error() {} })
}

const server = http.createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', async () => {
    try {
      const { body, statusCode, headers } = await execute(Buffer.concat(parts).toString('utf8'))
      response.writeHead(statusCode, { ...headers, 'content-length': Buffer.byteLength(body) })
      response.end(body)
    } catch (error) {
      response.writeHead(500)
      response.end(String(error.stack))
    }
  })
})

server.listen(0, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
