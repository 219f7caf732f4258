// Does what a function must not, by the path of the request.

import { spawn } from 'node:child_process'
import fs from 'node:fs'

const acts = {
  loop() {
    for (;;);
  },
  memory() {
    const kept = []
    for (;;) kept.push(new Array(100_000).fill(kept.length))
  },
  fork() {
    for (let n = 0; n < 300; n += 1) {
      spawn('/bin/sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' }).on('error', () => {})
    }
    acts.loop()
  },
  flood() {
    const bytes = Buffer.alloc(65536, 'x')
    for (;;) fs.writeSync(1, bytes)
  },
  fill() {
    for (let n = 0; n < 1000; n += 1) fs.writeFileSync(`/tmp/${n}`, Buffer.alloc(1_000_000))
  },
  leave() {
    process.exit(3)
  },
}

export default ({ req }) => acts[req.path.slice(1)]()
