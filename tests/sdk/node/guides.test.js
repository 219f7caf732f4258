// The programs on the pages of the guides, as they stand there, each after what the page supposes.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Server } from './server.js';

const GUIDES = new URL('../../../docs/guides/', import.meta.url);
const run = promisify(execFile);

/** A table of three products, under the names that the pages use. */
const supposed = ({ endpoint, projectId, apiKey }) => `
import { Client, ID, Permission, Query, Role, TablesDB } from 'node-appwrite';
const client = new Client().setEndpoint('${endpoint}').setProject('${projectId}').setKey('${apiKey}');
const tables = new TablesDB(client);
await tables.create({ databaseId: 'main', name: 'Main' });
const table = { databaseId: 'main', tableId: 'products' };
await tables.createTable({
  ...table, name: 'Products', columns: [
    { key: 'category', type: 'enum', elements: ['books', 'games'] },
    { key: 'price', type: 'integer' },
    { key: 'description', type: 'varchar', size: 500 },
  ],
});
const texts = ['A quiet evening', 'The Seaside', 'Loud'];
for (const [at, description] of texts.entries()) {
  const data = { category: 'books', price: 10 + at, description };
  await tables.createRow({ ...table, rowId: 'p' + at, data });
}
const queries = [Query.orderDesc('price')];
`;

/** The page, what to print when its program has run, and what must be printed. */
const CASES = [
  ['permissions.md', "(await tables.listRows({ databaseId: 'main', tableId: 'posts' })).total", '1'],
  ['queries.md', 'page.total, next.rows.length', '3 0'],
  ['full-text.md', 'found.total', '2'],
];

for (const [page, shown, expected] of CASES) {
  test(`the programs of ${page} run`, async () => {
    const text = await readFile(new URL(page, GUIDES), 'utf8');
    const blocks = [...text.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);
    assert.ok(blocks.length > 0, 'the page shows a program');
    const server = await Server.start();
    try {
      const program = `${supposed(server.bootstrap)}${blocks.join('')}console.log(${shown});`;
      const words = ['--input-type=module', '--eval', program];
      const { stdout } = await run(process.execPath, words, { cwd: import.meta.dirname });
      assert.equal(stdout.trim(), expected);
    } finally {
      await server.close();
    }
  });
}
