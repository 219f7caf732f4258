// Takes long to load, as code with large packages does, and tells what it is.

const { randomBytes } = require('node:crypto')

Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
if (process.env.FAIL !== undefined) throw new Error('the code cannot be loaded')

const token = randomBytes(16).toString('hex')
let runs = 0

module.exports = ({ req, res }) => {
  if (req.path === '/exit') process.exit(3)
  runs += 1
  const found = { runs, token, mark: process.env.MARK ?? null }
  process.env.MARK = 'left by another run'
  return res.text(JSON.stringify(found))
}
