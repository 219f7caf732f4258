// Runs the handlers of one deployment: takes requests from the server on descriptor 3, in
// frames, calls the handler, and answers. crates/functions/src/frame.rs is the other side.

import { AsyncLocalStorage } from 'node:async_hooks'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const SETUP = 1
const REQUEST = 2
const BODY = 3
const STARTED = 4
const RESPONSE = 5
const LOG = 6
const CANCEL = 7
const CREDIT = 8

// The descriptor that the server is behind.
const SOCKET = 3
// Where it writes which requests it starts, if the setup says so: nobody is woken by it.
const STARTS = 4
const HEAD_BYTES = 9
// Behind the byte that marks the last piece.
const PIECE_BYTES_MAX = 65535
const CREDIT_BYTES = 262144
// Of a text, in a frame: at most three bytes each, so that a frame holds them.
const LOG_PIECE_LETTERS = 16000
const HEADERS_BYTES_MAX = 65536
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
// eslint-disable-next-line no-control-regex
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
// What the language says where there is no room for bytes outside of its heap.
const NO_MEMORY = /allocation failed|failed to allocate/i
const HINT = 'Native log detected. Use context.log() or context.error() for logging.\n'
const NOTHING = Buffer.alloc(0)
const BINARY_TYPES = ['application/', 'audio/', 'font/', 'image/', 'video/']

const READ_BYTES = 65536

const current = new AsyncLocalStorage()
const runs = new Map()
let setup = null
let load = null

function frame(kind, request, payload) {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + payload.length)
  bytes.writeUInt32LE(payload.length, 0)
  bytes[4] = kind
  bytes.writeUInt32LE(request, 5)
  bytes.set(payload, HEAD_BYTES)
  return bytes
}

/** A piece of what may go in several, with the byte that marks the last one. */
function piece(kind, request, payload, isLast) {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + 1 + payload.length)
  bytes.writeUInt32LE(payload.length + 1, 0)
  bytes[4] = kind
  bytes.writeUInt32LE(request, 5)
  bytes[HEAD_BYTES] = isLast ? 1 : 0
  bytes.set(payload, HEAD_BYTES + 1)
  return bytes
}

/** The pieces of `bytes` as frames, the last one marked. */
function pieces(kind, request, bytes) {
  const frames = []
  let at = 0
  do {
    const end = Math.min(at + PIECE_BYTES_MAX, bytes.length)
    frames.push(piece(kind, request, bytes.subarray(at, end), end === bytes.length))
    at = end
  } while (at < bytes.length)
  return frames
}

const start = Buffer.alloc(4)
let unsent = []

/** Sends frames at once, behind those that wait. */
function send(frames) {
  for (const one of frames) unsent.push(one)
  flush()
}

/** Sends frames when all that can go on now has: answers to requests that came together leave
 * together. */
function sendSoon(frames) {
  if (unsent.length === 0) process.nextTick(flush)
  for (const one of frames) unsent.push(one)
}

function flush() {
  if (unsent.length === 0) return
  const bytes = unsent.length === 1 ? unsent[0] : Buffer.concat(unsent)
  unsent = []
  let sent = 0
  // Past the stream, whose way costs more than the call, unless that has bytes which come first.
  if (socket.writableLength === 0) {
    try {
      sent = fs.writeSync(SOCKET, bytes)
    } catch (error) {
      // Without its server a process has nothing to do.
      if (error.code !== 'EAGAIN') process.exit(0)
    }
  }
  if (sent < bytes.length) socket.write(sent === 0 ? bytes : bytes.subarray(sent))
}

/** One execution: what came in, what is left to send, and its logs. */
class Execution {
  constructor(id, head) {
    this.id = id
    this.head = head
    this.received = []
    this.answer = null
    this.sent = 0
    this.credit = CREDIT_BYTES
    this.began = performance.now()
    this.isDone = false
    this.hasHint = false
    // Logs and errors: letters that were sent, and the end of all that is above the limit.
    this.logs = [{ sent: 0, tail: '' }, { sent: 0, tail: '' }]
  }

  log(stream, text) {
    if (this.isDone) return
    const log = this.logs[stream]
    const limit = setup.limits.log_chars
    const now = text.slice(0, limit - log.sent)
    log.sent += now.length
    this.sendLog(stream, now)
    log.tail += text.slice(now.length)
    if (log.tail.length > 2 * limit) log.tail = log.tail.slice(-limit)
  }

  sendLog(stream, text) {
    for (let at = 0; at < text.length;) {
      let end = Math.min(at + LOG_PIECE_LETTERS, text.length)
      // Never between the halves of a surrogate pair.
      const last = text.charCodeAt(end - 1)
      if (end < text.length && last >= 0xd800 && last <= 0xdbff) end -= 1
      const letters = Buffer.from(text.slice(at, end), 'utf8')
      send([frame(LOG, this.id, Buffer.concat([Buffer.from([stream]), letters]))])
      at = end
    }
  }

  native(stream, text) {
    const hint = this.hasHint ? '' : HINT
    this.hasHint = true
    this.log(stream, hint + text)
  }

  /** Answers, once: with a response, or with a `failure` in words. */
  finish(status, headers, body, failure) {
    if (this.isDone) return
    this.logs.forEach((log, stream) => {
      this.sendLog(stream, log.tail.slice(-setup.limits.log_chars))
    })
    this.isDone = true
    this.answer = body
    const head = { status, headers, took_us: Math.round((performance.now() - this.began) * 1000) }
    if (failure !== undefined) head.failure = failure
    const bytes = Buffer.from(JSON.stringify(head), 'utf8')
    this.pump(pieces(RESPONSE, this.id, bytes))
  }

  /** Sends as much of the body as the server has given credit for. */
  pump(frames = []) {
    const body = this.answer
    if (body === null) return
    for (;;) {
      const end = Math.min(this.sent + Math.min(PIECE_BYTES_MAX, this.credit), body.length)
      const isLast = end === body.length
      if (end === this.sent && !isLast) break
      frames.push(piece(BODY, this.id, body.subarray(this.sent, end), isLast))
      this.credit -= end - this.sent
      this.sent = end
      if (isLast) {
        this.answer = null
        runs.delete(this.id)
        break
      }
    }
    if (frames.length > 0) sendSoon(frames)
  }
}

function shown(value) {
  if (value instanceof Error) return value.stack || String(value)
  if (value !== null && typeof value === 'object') {
    try {
      return JSON.stringify(value)
    } catch {
      return String(value)
    }
  }
  return String(value)
}

/** A text that a thrown value surely has: its own conversions may throw as well. */
function reason(value) {
  try {
    if (value instanceof RangeError && NO_MEMORY.test(value.message)) {
      return `The function ran out of memory (${setup.limits.memory_mib} MiB).`
    }
    return shown(value)
  } catch {
    return 'The function threw a value that has no text.'
  }
}

/** `req`: views of the body are made when they are read. */
function makeRequest(head, bytes) {
  const headers = head.headers
  const scheme = headers['x-forwarded-proto'] || 'http'
  const [host, portText] = splitHost(headers.host || '')
  const usual = scheme === 'https' ? 443 : 80
  const port = portText === '' ? usual : Number(portText)
  const mark = head.path.indexOf('?')
  const queryString = mark < 0 ? '' : head.path.slice(mark + 1)
  const place = mark < 0 ? head.path : head.path.slice(0, mark)
  const query = {}
  for (const pair of queryString.split('&')) {
    const [key, ...rest] = pair.split('=')
    if (key !== '') query[key] = rest.join('=')
  }
  const shownPort = port === usual ? '' : `:${port}`
  const shownQuery = queryString === '' ? '' : `?${queryString}`
  const url = `${scheme}://${host}${shownPort}${place}${shownQuery}`
  const type = (headers['content-type'] || 'text/plain').toLowerCase()
  return {
    headers, method: head.method, url, scheme, host, port, path: place, queryString, query,
    get bodyBinary() { return bytes },
    get bodyText() { return bytes.toString('utf8') },
    get bodyRaw() { return bytes.toString('utf8') },
    get bodyJson() { return JSON.parse(bytes.toString('utf8')) },
    get body() {
      if (type.startsWith('application/json')) return bytes.length === 0 ? {} : this.bodyJson
      return BINARY_TYPES.some((start) => type.startsWith(start)) ? bytes : this.bodyText
    },
  }
}

function splitHost(text) {
  const at = text.lastIndexOf(':')
  return at < 0 || text.endsWith(']') ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

const res = {
  binary(bytes, statusCode = 200, headers = {}) {
    return { body: bytes, statusCode, headers }
  },
  text(body, statusCode = 200, headers = {}) {
    return { body: Buffer.from(String(body), 'utf8'), statusCode, headers }
  },
  send(body, statusCode = 200, headers = {}) {
    return res.text(body, statusCode, headers)
  },
  json(value, statusCode = 200, headers = {}) {
    const typed = { ...headers, 'content-type': 'application/json' }
    return res.text(JSON.stringify(value), statusCode, typed)
  },
  empty() {
    return res.text('', 204, {})
  },
  redirect(url, statusCode = 301, headers = {}) {
    return res.text('', statusCode, { ...headers, location: String(url) })
  },
}

/** Headers as they leave; throws a sentence where one is none. */
function checkHeaders(given) {
  const headers = {}
  let bytes = 0
  for (const [name, value] of Object.entries(given)) {
    const small = name.toLowerCase()
    if (small.startsWith('x-open-runtimes-')) continue
    let text = String(value)
    if (!TOKEN.test(small) || !VALUE.test(text)) {
      throw new Error(`The response has a header that is none: ${JSON.stringify(small)}.`)
    }
    if (small === 'content-type') {
      const type = text.toLowerCase()
      if (!type.startsWith('multipart/') && !type.includes('charset=')) text += '; charset=utf-8'
    }
    headers[small] = text
    bytes += small.length + text.length
  }
  if (bytes > HEADERS_BYTES_MAX) {
    throw new Error(
      `The response has headers of ${bytes} bytes; the limit is ${HEADERS_BYTES_MAX} bytes.`)
  }
  headers['content-type'] ??= 'text/plain; charset=utf-8'
  return headers
}

function checkBody(body) {
  const bytes = body instanceof Uint8Array
    ? Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    : body instanceof ArrayBuffer ? Buffer.from(body) : Buffer.from(String(body), 'utf8')
  if (bytes.length > setup.limits.body_bytes) {
    throw new Error(
      `The response has ${bytes.length} bytes; the limit is ${setup.limits.body_bytes} bytes.`)
  }
  return bytes
}

function answer(run, output) {
  if (output === undefined || output === null || typeof output !== 'object') {
    const missing = 'Return statement missing. return context.res.empty() if no response is '
    run.finish(500, {}, NOTHING, `${missing}expected.`)
    return
  }
  let status, headers, body
  try {
    status = output.statusCode ?? 200
    if (!Number.isInteger(status) || status < 200 || status > 599) {
      throw new Error(`The response has the status ${reason(status)}; it must be 200 to 599.`)
    }
    headers = checkHeaders(output.headers ?? {})
    body = checkBody(output.body ?? '')
  } catch (error) {
    run.finish(500, {}, NOTHING, reason(error?.message ?? error))
    return
  }
  run.finish(status, headers, body)
}

/** The function of the entry file. Loaded once, before the server sends any request. */
async function loadFunction() {
  const file = path.resolve(setup.folder, setup.entrypoint)
  if (!fs.existsSync(file)) throw new Error(`The entrypoint ${setup.entrypoint} is missing.`)
  const loaded = await import(pathToFileURL(file).href)
  const found = [loaded.default, loaded.default?.default, loaded]
  const handler = found.find((value) => typeof value === 'function')
  if (handler === undefined) {
    throw new Error(`The entrypoint ${setup.entrypoint} exports no function.`)
  }
  return handler
}

function execute(run) {
  const bytes = run.received.length === 1 ? run.received[0] : Buffer.concat(run.received)
  run.received = []
  // A handler that never returns must not hold back an answer from before it.
  flush()
  if (setup.has_starts) {
    start.writeUInt32LE(run.id, 0)
    fs.writeSync(STARTS, start)
  } else {
    send([frame(STARTED, run.id, NOTHING)])
  }
  run.began = performance.now()
  const fail = (error) => run.finish(500, {}, NOTHING, reason(error))
  try {
    if (load.error !== undefined) throw load.error
    const context = {
      req: makeRequest(run.head, bytes),
      res,
      log: (...values) => run.log(0, `${values.map(shown).join(' ')}\n`),
      error: (...values) => run.log(1, `${values.map(shown).join(' ')}\n`),
    }
    const output = load.handler(context)
    if (typeof output?.then !== 'function') return answer(run, output)
    // What a handler returns may be no promise of the language's own.
    Promise.resolve(output).then((given) => answer(run, given), fail)
  } catch (error) {
    fail(error)
  }
}

/** What a handler writes by `console` is a log of its own execution. */
function catchNative(stream, standard) {
  const write = standard.write.bind(standard)
  standard.write = (chunk, encoding, callback) => {
    const run = current.getStore()
    if (run === undefined || run.isDone) return write(chunk, encoding, callback)
    run.native(stream, typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'))
    const after = typeof encoding === 'function' ? encoding : callback
    if (typeof after === 'function') process.nextTick(after)
    return true
  }
}

async function begin(text) {
  setup = JSON.parse(text)
  for (const [name, value] of Object.entries(setup.variables)) process.env[name] = value
  catchNative(0, process.stdout)
  catchNative(1, process.stderr)
  try {
    load = { handler: await loadFunction() }
  } catch (error) {
    load = { error }
  }
  send([frame(STARTED, 0, NOTHING)])
}

/** Pieces of heads that are not complete, by request; 0 is the setup. */
const heads = new Map()

/** The text of a head, once its last piece is there. */
function gather(request, bytes, at, end) {
  const isLast = bytes[at] === 1
  const known = heads.get(request)
  if (known === undefined && isLast) return bytes.utf8Slice(at + 1, end)
  // What is read next comes to the same place.
  const all = [...(known ?? []), Buffer.from(bytes.subarray(at + 1, end))]
  if (!isLast) {
    heads.set(request, all)
    return null
  }
  heads.delete(request)
  return Buffer.concat(all).toString('utf8')
}

/** Takes a frame, whose payload is `bytes` from `at` to `end`. */
function take(kind, request, bytes, at, end) {
  if (kind === SETUP) {
    const text = gather(0, bytes, at, end)
    if (text !== null) begin(text)
    return
  }
  if (kind === REQUEST) {
    const text = gather(request, bytes, at, end)
    if (text !== null) runs.set(request, new Execution(request, JSON.parse(text)))
    return
  }
  const run = runs.get(request)
  if (run === undefined) return
  if (kind === BODY) {
    takeBody(run, bytes[at] === 1, bytes.subarray(at + 1, end))
  } else if (kind === CREDIT) {
    run.credit += bytes.readUInt32LE(at)
    run.pump()
  } else if (kind === CANCEL) {
    run.finish(500, {}, NOTHING, '')
  }
}

function takeBody(run, isLast, part) {
  if (part.length > 0) {
    run.received.push(Buffer.from(part))
    if (!isLast) {
      const credit = Buffer.allocUnsafe(4)
      credit.writeUInt32LE(part.length, 0)
      send([frame(CREDIT, run.id, credit)])
    }
  }
  if (isLast && !run.isDone) current.run(run, execute, run)
}

let unread = NOTHING

function read(count, buffer) {
  const chunk = buffer.subarray(0, count)
  const bytes = unread.length === 0 ? chunk : Buffer.concat([unread, chunk])
  let at = 0
  while (bytes.length - at >= HEAD_BYTES) {
    const end = at + HEAD_BYTES + bytes.readUInt32LE(at)
    if (bytes.length < end) break
    take(bytes[at + 4], bytes.readUInt32LE(at + 5), bytes, at + HEAD_BYTES, end)
    at = end
  }
  unread = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at))
  return true
}

const socket = new net.Socket({
  fd: SOCKET,
  readable: true,
  writable: true,
  onread: { buffer: Buffer.alloc(READ_BYTES), callback: read },
})
// Without its server a process has nothing to do.
socket.on('close', () => process.exit(0))
socket.on('error', () => process.exit(0))
socket.resume()
