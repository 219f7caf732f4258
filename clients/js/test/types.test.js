// The declarations fit the code and the official SDK, as `tsc --strict` judges.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as tidemark from 'tidemark';

const FOLDER = path.join(import.meta.dirname, '..');

/** Checks the project of a folder. */
function compile(folder) {
  const compiler = fileURLToPath(import.meta.resolve('typescript/bin/tsc'));
  return spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' });
}

test('the package is typed', () => {
  const done = compile(FOLDER);
  assert.equal(done.status, 0, done.stdout + done.stderr);
});

test('the program of the README is typed', async () => {
  const readme = await readFile(path.join(FOLDER, 'README.md'), 'utf8');
  const [, program] = readme.match(/```ts\n(.*?)```/s);
  // Inside the folder, where the packages are found.
  const folder = await mkdtemp(path.join(FOLDER, 'types', 'readme-'));
  try {
    const page = path.join(folder, 'page.ts');
    await writeFile(page, `${program}\ndeclare const tables: TablesDB;\n`);
    const config = { extends: '../../tsconfig.json', files: ['page.ts'] };
    await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify(config));
    const done = compile(folder);
    assert.equal(done.status, 0, done.stdout + done.stderr);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('what is declared is there, and nothing else', () => {
  const names = ['asOf', 'freshness', 'validAt', 'validBetween', 'versions'];
  assert.deepEqual(Object.keys(tidemark).sort(), names);
});
