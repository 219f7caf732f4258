// The commands of the page "Ten minutes", pasted one block after the other.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Server } from './server.js';

const PAGE = new URL('../../../docs/start/ten-minutes.md', import.meta.url);
const run = promisify(execFile);

test('the commands of the first ten minutes run as pasted', async () => {
  const page = await readFile(PAGE, 'utf8');
  const [start, ...blocks] = [...page.matchAll(/```sh\n(.*?)```/gs)].map(([, code]) => code);
  const setting = (name) => start.match(new RegExp(`${name}=(\\S+)`))[1];
  const names = ['TIDEMARK_PROJECT_ID', 'TIDEMARK_API_KEY'];
  const env = Object.fromEntries(names.map((name) => [name, setting(name)]));
  assert.ok(start.includes('tidemark serve --data ./shop-data'));

  const server = await Server.start({ env });
  try {
    const script = `set -euo pipefail\n${blocks.join('')}`
      .replace('http://127.0.0.1:8280/v1', server.bootstrap.endpoint)
      .replace('--data ./shop-data', `--data ${path.join(server.directory, 'data')}`);
    const folder = path.dirname(process.env.TIDEMARK_BIN);
    const PATH = `${folder}:${process.env.PATH}`;
    const { stdout } = await run('bash', ['-c', script], { env: { ...process.env, PATH } });
    assert.match(stdout, /x-tidemark-cache: miss/i);
    assert.match(stdout, /"total":1,/, 'the first list');
    assert.match(stdout, /"total":3,/, 'the list of versions');
    const table = stdout.slice(stdout.indexOf('VALID FROM')).trim().split('\n');
    assert.equal(table.length, 1 + 3, 'the history: a heading and three versions');
  } finally {
    await server.close();
  }
});
