// Tries each way out of the jail that Node has words for, and answers with what came of it.

const fs = require('node:fs')
const net = require('node:net')
const dgram = require('node:dgram')
const { spawn, spawnSync } = require('node:child_process')

function outcome(attempt) {
  try {
    attempt()
    return 'done'
  } catch (error) {
    return error.code ?? String(error)
  }
}

/** What an attempt comes to, or the name of its error. */
function value(attempt) {
  try {
    return attempt()
  } catch (error) {
    return error.code
  }
}

/** Whether no process of the host is among them. */
function processes() {
  return Math.max(...fs.readdirSync('/proc').map(Number).filter(Boolean)) < 100
}

function connect(target) {
  return new Promise((resolve) => {
    const socket = net.connect(target)
    socket.setTimeout(2000, () => { socket.destroy(); resolve('ETIMEDOUT') })
    socket.on('connect', () => { socket.destroy(); resolve('done') })
    socket.on('error', (error) => resolve(error.code))
  })
}

function datagram(address, port) {
  return new Promise((resolve) => {
    const socket = dgram.createSocket('udp4')
    socket.on('error', (error) => resolve(error.code))
    socket.send('x', port, address, (error) => resolve(error?.code ?? 'done'))
  })
}

/** Why there can be no more children at once, and how many there were. */
async function forks() {
  const children = []
  let reason
  while (!reason && children.length < 300) {
    const child = spawn('/bin/sleep', ['60'], { stdio: 'ignore' })
    if (child.pid) children.push(child)
    else reason = await new Promise((resolve) => child.on('error', ({ code }) => resolve(code)))
  }
  children.forEach((child) => child.kill('SIGKILL'))
  return [reason, children.length]
}

function fill() {
  return outcome(() => {
    for (let n = 0; n < 200; n += 1) fs.writeFileSync(`/tmp/${n}`, Buffer.alloc(1000000))
  })
}

module.exports = async ({ req, res }) => {
  const { secret, port, abstract, path_socket } = req.bodyJson
  const status = (line) => value(() => line.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1])
  const found = {
    secret: outcome(() => fs.readFileSync(secret)),
    shadow: outcome(() => fs.readFileSync('/etc/shadow')),
    'own code': outcome(() => fs.writeFileSync('own.js', '')),
    'own code removed': outcome(() => fs.unlinkSync(__filename)),
    adapter: outcome(() => fs.writeFileSync('/adapter/adapter.mjs', '')),
    root: outcome(() => fs.writeFileSync('/x', '')),
    processes: value(processes),
    'environment of the first process': outcome(() => fs.readFileSync('/proc/1/environ')),
    'mounts of its parent': outcome(() => fs.readFileSync(`/proc/${process.ppid}/mountinfo`)),
    'signal to the first process': outcome(() => process.kill(1, 'SIGKILL')),
    'host loopback': await connect({ host: '127.0.0.1', port }),
    metadata: await connect({ host: '169.254.169.254', port: 80 }),
    'metadata by UDP': await datagram('169.254.169.254', 53),
    'abstract socket': await connect({ path: `\0${abstract}` }),
    'path socket': await connect({ path: path_socket }),
    'weight of the session': outcome(() => fs.writeFileSync('/proc/self/autogroup', '0')),
    user: process.getuid() !== 0 && outcome(() => process.setuid(0)),
    capabilities: status(/CapEff:\s+(\S+)/),
    bounding: status(/NoNewPrivs:\s+(\S+)/),
    unshare: spawnSync('/usr/bin/unshare', ['-U', '/bin/true']).status !== 0,
    variables: Object.keys(process.env).sort(),
  }
  if (req.path === '/full') found.fill = fill()
  if (['/full', '/reduced'].includes(req.path)) found.forks = await forks()
  return res.json(found)
}
