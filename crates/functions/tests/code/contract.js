// Answers with what it sees, by the path of the request.
const routes = {
  '/echo': ({ req, res }) => res.json({
    method: req.method, url: req.url, scheme: req.scheme, host: req.host, port: req.port,
    path: req.path, queryString: req.queryString, query: req.query, headers: req.headers,
    body: req.bodyText, raw: req.bodyRaw, bytes: [...req.bodyBinary],
    view: Buffer.isBuffer(req.body) ? 'bytes' : req.body,
  }),
  '/json': ({ req, res }) => res.json({ sum: req.bodyJson.a + req.bodyJson.b }),
  '/text': ({ res }) => res.text('héllo', 201, { 'X-One': '1' }),
  '/send': ({ res }) => res.send('sent'),
  '/typed': ({ res }) => res.text('<p>', 200, { 'Content-Type': 'text/html' }),
  '/binary': ({ res }) => res.binary(Buffer.from([0, 255, 1])),
  '/empty': ({ res }) => res.empty(),
  '/redirect': ({ res }) => res.redirect('https://example.org/a'),
  '/hidden': ({ res }) => res.text('', 200, { 'x-open-runtimes-a': 'b', 'x-kept': 'c' }),
  '/fail': ({ res }) => res.text('no', 503),
  '/log': ({ res, log, error }) => {
    log('one')
    log({ a: [1] })
    error(new Error('seen'))
    console.log('native', 1)
    console.error('native error')
    return res.text('')
  },
  '/variable': ({ res }) => res.json({ secret: process.env.SECRET, path: process.env.CARGO ?? null }),
  '/await': async ({ req, res }) => {
    await new Promise((resolve) => setTimeout(resolve, Number(req.query.ms)))
    return res.text('waited')
  },
  '/parallel': async ({ req, res, log }) => {
    for (let step = 0; step < 3; step += 1) {
      console.log(`${req.query.who} ${step}`)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    return res.text('')
  },
  '/big': ({ req, res }) => res.binary(Buffer.alloc(Number(req.query.bytes), 'x')),
  '/length': ({ req, res }) => res.text(String(req.bodyBinary.length)),
  '/nothing': () => {},
  '/string': () => 'text',
  '/throw': () => { throw new Error('thrown here') },
  '/throw-odd': () => { throw { toString() { throw 1 }, toJSON() { throw 2 } } },
  '/circular': ({ res }) => { const a = {}; a.a = a; return res.json(a) },
  '/status': ({ res }) => res.text('', 99),
  '/header': ({ res }) => res.text('', 200, { 'a b': 'c' }),
  '/header-break': ({ res }) => res.text('', 200, { a: 'b\r\nc: d' }),
  '/headers': ({ res }) => res.text('', 200, { a: 'x'.repeat(70000) }),
  '/flood': ({ res, log }) => {
    for (let n = 0; n < 300000; n += 1) log(`line ${n}`)
    return res.text('')
  },
  '/long-logs': async ({ req, res, log, error }) => {
    log('😀'.repeat(490000))
    error('😀'.repeat(490000))
    await new Promise((resolve) => setTimeout(resolve, Number(req.query.ms)))
    error('the end')
    return res.text('')
  },
  '/long-line': ({ res, log }) => { log('€'.repeat(3000000)); return res.text('') },
  '/loop': () => { for (;;); },
  '/forever': () => new Promise(() => {}),
  '/exit': () => { console.error('words'); process._rawDebug('last words'); process.exit(3) },
  '/close': () => { require('node:fs').closeSync(3); return new Promise(() => {}) },
  '/forge': ({ req }) => {
    require('node:fs').writeSync(3, Buffer.from(req.query.hex, 'hex'))
    return new Promise(() => {})
  },
  '/memory': () => { const all = []; for (;;) all.push(new Array(100000).fill({ a: 1 })) },
  '/stdout': async ({ res }) => {
    const piece = 'x'.repeat(65536)
    for (let n = 0; n < 800; n += 1) {
      try { require('node:fs').writeSync(1, piece) } catch { await 0 }
    }
    return res.text('written')
  },
  '/deaf': async ({ res }) => { await new Promise((r) => setTimeout(r, 20)); return res.text('') },
}

module.exports = (context) => {
  const route = routes[context.req.path]
  return route === undefined ? context.res.text('no route', 404) : route(context)
}
