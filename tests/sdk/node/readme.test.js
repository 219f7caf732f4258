// The first session of the README, as it stands there: the program of a newcomer must run.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Server } from './server.js';

const ROOT = path.join(import.meta.dirname, '../../..');
const run = promisify(execFile);

test('the program of the README runs, and prints what it says', async () => {
  const readme = await readFile(path.join(ROOT, 'README.md'), 'utf8');
  const setting = (name) => readme.match(new RegExp(`${name}=(\\S+)`))[1];
  const names = ['TIDEMARK_PROJECT_ID', 'TIDEMARK_API_KEY'];
  const env = Object.fromEntries(names.map((name) => [name, setting(name)]));
  const blocks = [...readme.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
  assert.equal(blocks.length, 2);
  const endpoint = 'http://127.0.0.1:8280/v1';
  assert.equal(blocks[0].split(endpoint).length, 2, 'the README names the endpoint once');

  const folder = await installed(readme);
  const server = await Server.start({ env });
  try {
    const program = blocks.join('').replace(endpoint, server.bootstrap.endpoint);
    const words = ['--input-type=module', '--eval', program];
    const { stdout } = await run(process.execPath, words, { cwd: folder });
    assert.deepEqual(stdout.trim().split('\n'), [
      '1 The Sea Around Us',
      'The Sea Around Us | The Sea, revised',
    ]);
  } finally {
    await rm(folder, { recursive: true });
    await server.close();
  }
});

/** A folder in which both packages are installed as the README says, by its own command. */
async function installed(readme) {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'tidemark-readme-'));
  const [, words] = readme.match(/`npm (install node-appwrite@[^`]+)`/);
  // The tests have no registry: the package itself is here.
  const sdk = path.join(import.meta.dirname, 'node_modules/node-appwrite');
  const placed = words.replace(/node-appwrite@\S+/, sdk).replace('./clients/js', `${ROOT}/clients/js`);
  const quiet = ['--offline', '--silent', '--no-audit'];
  const env = { ...process.env, HOME: folder };
  await run('npm', [...placed.split(' '), ...quiet], { cwd: folder, env });
  return folder;
}
