// The tutorial of the documentation, as it stands there: the program of a newcomer must run.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Server } from './server.js';

const PAGE = new URL('../../../docs/tutorial.md', import.meta.url);
const run = promisify(execFile);

test('the program of the tutorial runs, and prints what the page says', async () => {
  const page = await readFile(PAGE, 'utf8');
  const setting = (name) => page.match(new RegExp(`${name}=(\\S+)`))[1];
  const names = ['TIDEMARK_PROJECT_ID', 'TIDEMARK_API_KEY'];
  const env = Object.fromEntries(names.map((name) => [name, setting(name)]));
  const blocks = [...page.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
  const promised = [...page.matchAll(/^It prints `([^`]*)`/gm)].map(([, line]) => line);
  assert.equal(promised.length, 5);

  const server = await Server.start({ env });
  try {
    const program = blocks.join('').replace('http://127.0.0.1:8280/v1', server.bootstrap.endpoint);
    const words = ['--input-type=module', '--eval', program];
    const { stdout } = await run(process.execPath, words, { cwd: import.meta.dirname });
    assert.deepEqual(stdout.trim().split('\n'), promised);
  } finally {
    await server.close();
  }
});
