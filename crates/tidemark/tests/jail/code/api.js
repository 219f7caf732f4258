// Says what comes of a request to the API, and of connections to all else.

const http = require('node:http')
const net = require('node:net')

function get(port) {
  return new Promise((resolve) => {
    const request = http.get({ host: '127.0.0.1', port, path: '/v1/health' }, (response) => {
      let body = ''
      response.on('data', (piece) => { body += piece })
      response.on('end', () => resolve(body))
    })
    request.on('error', (error) => resolve(error.code))
  })
}

function listen(port) {
  return new Promise((resolve) => {
    const server = net.createServer()
    server.on('error', (error) => resolve(error.code))
    server.listen(port, '127.0.0.1', () => { server.close(); resolve('done') })
  })
}

module.exports = async ({ req, res }) => {
  const { port } = req.bodyJson
  return res.json({
    api: await get(8280),
    again: await get(8280),
    host: await get(port),
    next: await get(8281),
    listen: await listen(8281),
  })
}
