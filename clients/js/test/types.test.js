// The declarations fit the code and the official SDK, as `tsc --strict` judges.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as tidemark from 'tidemark';

const FOLDER = path.join(import.meta.dirname, '..');
const SCHEMA = path.join(FOLDER, '../schema-file.json');

/** Checks the project of a folder. */
function compile(folder) {
  const compiler = fileURLToPath(import.meta.resolve('typescript/bin/tsc'));
  return spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' });
}

test('the package is typed', () => {
  const done = compile(FOLDER);
  assert.equal(done.status, 0, done.stdout + done.stderr);
});

/** Checks programs by their names, inside the folder, where the packages are found. */
async function compileAll(programs) {
  const folder = await mkdtemp(path.join(FOLDER, 'types', 'made-'));
  try {
    for (const [name, text] of Object.entries(programs)) {
      await writeFile(path.join(folder, name), text);
    }
    const config = { extends: '../../tsconfig.json', files: Object.keys(programs) };
    await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify(config));
    return compile(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test('the program of the README is typed', async () => {
  const readme = await readFile(path.join(FOLDER, 'README.md'), 'utf8');
  const [, program] = readme.match(/```ts\n(.*?)```/s);
  const done = await compileAll({ 'page.ts': `${program}\ndeclare const tables: TablesDB;\n` });
  assert.equal(done.status, 0, done.stdout + done.stderr);
});

const READER = `import type { TablesDB } from 'node-appwrite';
import type { OrderLines } from './rows.ts';

export async function prices(tables: TablesDB): Promise<number[]> {
  const place = { databaseId: 'shop', tableId: 'order_lines' };
  const { rows } = await tables.listRows<OrderLines>(place);
  const paid = rows.filter((row) => row.state === "it's \\"paid\\"" && row.paid);
  return paid.map((row) => row.price * (row.pieces ?? 1));
}
`;

test('the types of a schema file are typed', async () => {
  const words = ['schema', 'types', 'typescript', '--file', SCHEMA];
  const made = spawnSync(process.env.TIDEMARK_BIN, words, { encoding: 'utf8' });
  assert.equal(made.status, 0, made.stderr);
  const done = await compileAll({ 'rows.ts': made.stdout, 'reader.ts': READER });
  assert.equal(done.status, 0, done.stdout + done.stderr);
  // What no row has is refused.
  const wrong = READER.replace('row.price', 'row.cost');
  const refused = await compileAll({ 'rows.ts': made.stdout, 'reader.ts': wrong });
  assert.match(refused.stdout, /'cost' does not exist on type 'OrderLines'/);
});

test('what is declared is there, and nothing else', () => {
  const names = ['asOf', 'freshness', 'undo', 'validAt', 'validBetween', 'versions'];
  assert.deepEqual(Object.keys(tidemark).sort(), names);
});
