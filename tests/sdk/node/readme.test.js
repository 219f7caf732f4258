// The first session of the README, as it stands there: the program of a newcomer must run.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
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

  const folder = await installed();
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

/** A folder in which both packages are installed as the README says. */
async function installed() {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'tidemark-readme-'));
  const modules = path.join(folder, 'node_modules');
  await mkdir(modules);
  const sdk = path.join(import.meta.dirname, 'node_modules', 'node-appwrite');
  await symlink(sdk, path.join(modules, 'node-appwrite'));
  await symlink(path.join(ROOT, 'clients', 'js'), path.join(modules, 'tidemark'));
  return folder;
}
