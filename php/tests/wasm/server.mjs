// One version of PHP, compiled to WebAssembly, behind HTTP: `node server.mjs 8.1 FILE PATH`. The
// drop-in FILE gets that path inside. It prints its port, and runs request.php for each body
// that it gets, one after the other.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PHP } from '@php-wasm/universal'
import { createNodeFsMountHandler, loadNodeRuntime } from '@php-wasm/node'

const tests = dirname(dirname(fileURLToPath(import.meta.url)))
const php = new PHP(
  await loadNodeRuntime(process.argv[2], { emscriptenOptions: { processId: process.pid } }),
)
for (const folder of [dirname(dirname(tests)), '/proc/sys/kernel/random']) {
  php.mkdir(folder)
  await php.mount(folder, createNodeFsMountHandler(folder))
}
const [, , , source, dropIn] = process.argv
php.mkdir(dirname(dropIn))
php.writeFile(dropIn, await readFile(source))

async function answer(body) {
  try {
    // The site lies in the memory of this PHP: mounted files have no lasting inode.
    php.mkdir(JSON.parse(body).content)
    const run = await php.run({ scriptPath: `${tests}/request.php`, method: 'POST', body })
    return run.errors + run.text
  } catch (error) {
    return `PHP ended: ${error.message}`
  }
}

let last = Promise.resolve()
const server = createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', () => {
    last = last
      .then(() => answer(Buffer.concat(parts)))
      .then((text) => response.end(text))
  })
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
