// A stopped server keeps everything it answered for.

import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { test } from 'node:test';
import { Query } from 'node-appwrite';
import { refused, Server } from './server.js';

test('the bootstrap file holds three strings and is for its owner only', async () => {
  const server = await Server.start();
  try {
    const { endpoint, projectId, apiKey } = server.bootstrap;
    assert.match(endpoint, /^http:\/\/127\.0\.0\.1:\d+\/v1$/);
    assert.match(projectId, /^[A-Za-z0-9][A-Za-z0-9_.-]{0,35}$/);
    assert.match(apiKey, /^standard_/);
    assert.equal((await stat(server.bootstrapPath)).mode & 0o777, 0o600);
  } finally {
    await server.close();
  }
});

test('rows, schema, permissions, sequences and keys survive a restart', async () => {
  let server = await Server.start();
  try {
    const T = { databaseId: 'd', tableId: 't' };
    const columns = [
      { key: 'n', type: 'integer', required: true },
      { key: 'tags', type: 'varchar', size: 9, array: true, required: false },
    ];
    const indexes = [{ key: 'one', type: 'unique', attributes: ['n'] }];
    const before = server.tables();
    await before.create({ databaseId: 'd', name: 'D' });
    await before.createTable({ ...T, name: 'T', columns, indexes, permissions: ['read("any")'] });
    const rows = Array.from({ length: 50 }, (_, n) => ({ $id: `r${n}`, n, tags: [`t${n}`] }));
    await before.createRows({ ...T, rows });
    const change = { data: { tags: [] }, permissions: ['read("users")'] };
    await before.updateRow({ ...T, rowId: 'r7', ...change });
    await before.deleteRow({ ...T, rowId: 'r49' });
    const all = { ...T, queries: [Query.limit(100)] };
    const seen = async (db) => [await db.get(T), await db.getTable(T), await db.listRows(all)];
    const wanted = await seen(before);

    server = await server.restart();
    const after = server.tables();
    assert.deepEqual(await seen(after), wanted);
    assert.equal((await server.tables(null).listRows(T)).total, 49);
    const taken = after.createRow({ ...T, rowId: 'x', data: { n: 3 } });
    await refused(taken, 409, 'row_unique_constraint_violation');
    const last = (await after.getRow({ ...T, rowId: 'r48' })).$sequence;
    const next = await after.createRow({ ...T, rowId: 'next', data: { n: 99 } });
    assert.ok(BigInt(next.$sequence) > BigInt(last));
  } finally {
    await server.close();
  }
});

test('project and key may be given by the environment, on every start the same', async () => {
  const env = { TIDEMARK_PROJECT_ID: 'given-project', TIDEMARK_API_KEY: 'standard_given-secret' };
  const server = await Server.start({ env });
  try {
    const { projectId, apiKey } = server.bootstrap;
    assert.deepEqual([projectId, apiKey], ['given-project', 'standard_given-secret']);
    await server.tables().create({ databaseId: 'd', name: 'D' });
    assert.equal((await server.tables('standard_given-secret').list()).total, 1);
  } finally {
    await server.close();
  }
});
