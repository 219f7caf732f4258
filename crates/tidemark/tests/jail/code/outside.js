// Says what a function with a network reaches, and what comes of each way around its broker.

const dgram = require('node:dgram')
const net = require('node:net')

function connect(host, port) {
  return new Promise((resolve) => {
    const socket = net.connect(typeof port === 'number' ? { host, port } : { path: host })
    socket.on('connect', () => { socket.destroy(); resolve('done') })
    socket.on('error', (error) => resolve(error.code ?? error.errors?.[0]?.code))
  })
}

async function get(url) {
  try {
    return await (await fetch(url)).text()
  } catch (error) {
    return error.cause?.code ?? String(error)
  }
}

function datagram(address, port, isConnected) {
  return new Promise((resolve) => {
    const socket = dgram.createSocket('udp4')
    const end = (error) => { resolve(error?.code ?? 'done'); socket.close() }
    socket.on('error', end)
    if (isConnected) socket.connect(port, address, end)
    else socket.send('escaped', port, address, end)
  })
}

module.exports = async ({ req, res }) => {
  const { own, open, port, datagrams, path_socket, abstract } = req.bodyJson
  const found = {
    api: await get('http://127.0.0.1:8280/v1/health'),
    'by name': await get(`http://own.test:${open}/v1/health`),
    'by address': await get(`http://${own}:${open}/v1/health`),
    own: await connect(own, open),
    'host loopback': await connect('127.0.0.1', port),
    'host loopback by IPv6': await connect('::1', port),
    'host loopback, mapped': await connect('::ffff:127.0.0.1', port),
    'host loopback by name': await connect('loop.test', port),
    private: await connect('10.0.0.1', 80),
    'private by name': await connect('private.test', 80),
    mapped: await connect('::ffff:10.0.0.1', 80),
    '6to4': await connect('2002:a00:1::1', 80),
    NAT64: await connect('64:ff9b::a00:1', 80),
    'unique local': await connect('fd00::2', 80),
    'link local': await connect('fe80::1', 80),
    metadata: await connect('169.254.169.254', 80),
    'private by UDP': await datagram(own, datagrams, true),
    sendmsg: await datagram(own, datagrams, false),
    'path socket': await connect(path_socket),
    'abstract socket': await connect(`\0${abstract}`),
  }
  return res.json(found)
}
