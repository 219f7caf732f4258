// Transactions through the SDK: staged by operations and by the calls for rows, read inside, over a
// restart, and in the older family.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { Databases, Operator, Query } from 'node-appwrite';
import { refused, Server } from './server.js';

const T = { databaseId: 'd', tableId: 't' };
const COLUMNS = [
  { key: 'name', type: 'varchar', size: 64 },
  { key: 'n', type: 'integer' },
  { key: 'code', type: 'varchar', size: 20 },
];
const INDEXES = [{ key: 'one_code', type: 'unique', attributes: ['code'] }];

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  await db.createTable({ ...T, name: 'T', columns: COLUMNS, indexes: INDEXES });
});
after(() => server.close());

beforeEach(async () => {
  await db.deleteRows(T);
  const rows = ['a', 'b', 'c'].map(($id, place) => ({ $id, n: place + 1, code: $id }));
  await db.createRows({ ...T, rows });
});

const open = async (client = db) => (await client.createTransaction()).$id;
const commit = (transactionId, client = db) =>
  client.updateTransaction({ transactionId, commit: true });
const rollback = (transactionId) => db.updateTransaction({ transactionId, rollback: true });
const op = (action, rowId, data) => ({ action, ...T, rowId, data });

/** Ids and `n` of all rows, in the order of their ids. */
async function rows(transactionId) {
  const queries = [Query.orderAsc('$id')];
  const { rows } = await db.listRows({ ...T, queries, transactionId });
  return rows.map((row) => `${row.$id}${row.n}`).join(' ');
}

describe('a transaction', () => {
  test('is created, found, listed and deleted', async () => {
    const made = await db.createTransaction({ ttl: 120 });
    assert.deepEqual([made.status, made.operations], ['pending', 0]);
    const lives = Date.parse(made.expiresAt) - Date.parse(made.$createdAt);
    assert.ok(Math.abs(lives - 120_000) <= 2, `${lives} ms`);
    const { $id: transactionId } = made;
    assert.deepEqual(await db.getTransaction({ transactionId }), made);
    const queries = [Query.equal('status', 'pending'), Query.orderDesc('$createdAt')];
    assert.deepEqual((await db.listTransactions({ queries })).transactions[0], made);
    await db.deleteTransaction({ transactionId });
    await refused(db.getTransaction({ transactionId }), 404, 'transaction_not_found');
  });

  test('lives from a minute to an hour', async () => {
    for (const ttl of [59, 3_601, 1.5]) {
      await refused(db.createTransaction({ ttl }), 400, 'general_argument_invalid', /ttl/);
    }
  });

  test('commits every kind of operation in order', async () => {
    const transactionId = await open();
    const operations = [
      op('create', 'x', { n: 10 }),
      op('update', 'x', { n: 11, name: 'x' }),
      op('upsert', 'a', { n: Operator.increment(4) }),
      op('increment', 'x', { column: 'n', value: 2 }),
      op('decrement', 'x', { column: 'n', min: 0 }),
      op('delete', 'b'),
      { action: 'bulkCreate', ...T, data: [{ $id: 'm', n: 20 }, { $id: 'o', n: 21 }] },
      { action: 'bulkUpsert', ...T, data: [{ $id: 'm', n: 22 }] },
      { action: 'bulkUpdate', ...T, data: { queries: [Query.equal('n', 21)], data: { n: 23 } } },
      { action: 'bulkDelete', ...T, data: { queries: [Query.equal('n', 3)] } },
    ];
    const staged = await db.createOperations({ transactionId, operations });
    assert.deepEqual([staged.status, staged.operations], ['pending', 10]);
    assert.deepEqual([await rows(transactionId), await rows()], ['a5 m22 o23 x12', 'a1 b2 c3']);
    assert.equal((await commit(transactionId)).status, 'committed');
    assert.equal(await rows(), 'a5 m22 o23 x12');
    await refused(commit(transactionId), 400, 'transaction_not_ready');
    const more = db.createOperations({ transactionId, operations: [op('delete', 'a')] });
    await refused(more, 400, 'general_bad_request');
  });

  test('takes what the calls for rows would do, and shows it inside', async () => {
    const transactionId = await open();
    const made = await db.createRow({ ...T, rowId: 'x', data: { n: 1 }, transactionId });
    assert.deepEqual([made.$id, made.n, made.name], ['x', 1, null]);
    const changed = await db.updateRow({ ...T, rowId: 'x', data: { name: 'x' }, transactionId });
    assert.deepEqual([changed.n, changed.name], [1, 'x']);
    const put = await db.upsertRow({ ...T, rowId: 'y', data: { n: 7 }, transactionId });
    assert.equal(put.n, 7);
    const x = { ...T, rowId: 'x', column: 'n', transactionId };
    const up = await db.incrementRowColumn({ ...x, value: 5 });
    assert.equal(up.n, 6);
    const down = await db.decrementRowColumn(x);
    assert.equal(down.n, 5);
    const many = [{ $id: 'm', n: 1 }, { $id: 'o', n: 2 }];
    const { total, rows: none } = await db.createRows({ ...T, rows: many, transactionId });
    assert.deepEqual([total, none], [2, []]);
    const one = [{ $id: 'm', n: 8 }];
    assert.equal((await db.upsertRows({ ...T, rows: one, transactionId })).total, 1);
    const queries = [Query.equal('n', 2)];
    assert.equal((await db.deleteRows({ ...T, queries, transactionId })).total, 0);
    assert.equal((await db.updateRows({ ...T, data: { name: 'all' }, transactionId })).total, 0);
    await db.deleteRow({ ...T, rowId: 'a', transactionId });
    assert.equal(await rows(transactionId), 'c3 m8 x5 y7');
    assert.equal((await db.getRow({ ...T, rowId: 'm', transactionId })).name, 'all');
    await refused(db.getRow({ ...T, rowId: 'a', transactionId }), 404, 'row_not_found');
    await refused(db.getRow({ ...T, rowId: 'x' }), 404, 'row_not_found');
    assert.equal((await rollback(transactionId)).status, 'failed');
    assert.equal(await rows(), 'a1 b2 c3');
  });

  test('fails as a whole when somebody else was there first', async () => {
    const transactionId = await open();
    const operations = [op('create', 'x', { n: 1 }), op('update', 'a', { n: 5 })];
    await db.createOperations({ transactionId, operations });
    await db.updateRow({ ...T, rowId: 'a', data: { n: 6 } });
    await refused(commit(transactionId), 409, 'transaction_conflict', /`a`/);
    assert.equal((await db.getTransaction({ transactionId })).status, 'failed');
    assert.equal(await rows(), 'a6 b2 c3');
  });

  test('of two that count one row both count', async () => {
    const ids = [await open(), await open()];
    const counts = ids.map((transactionId, place) => {
      const value = [10, 5][place];
      return db.incrementRowColumn({ ...T, rowId: 'a', column: 'n', value, transactionId });
    });
    await Promise.all(counts);
    await Promise.all(ids.map((id) => commit(id)));
    assert.equal(await rows(), 'a16 b2 c3');
  });

  test('of a hundred that update one row, one is committed', async () => {
    const ids = await Promise.all(Array.from({ length: 100 }, () => open()));
    const a = { ...T, rowId: 'a' };
    // None of them what it is already: that would change nothing, and meet no conflict.
    const update = (transactionId, n) => {
      return db.updateRow({ ...a, data: { n: 1_000 + n }, transactionId });
    };
    await Promise.all(ids.map(update));
    const ends = await Promise.allSettled(ids.map((id) => commit(id)));
    const won = ends.filter(({ status }) => status === 'fulfilled');
    const types = new Set(ends.filter(({ reason }) => reason).map(({ reason }) => reason.type));
    assert.deepEqual([won.length, [...types]], [1, ['transaction_conflict']]);
  });

  test('says at once what is not there, and at the commit what does not fit', async () => {
    const transactionId = await open();
    const update = db.updateRow({ ...T, rowId: 'z', data: { n: 1 }, transactionId });
    await refused(update, 404, 'row_not_found');
    await db.createRow({ ...T, rowId: 'x', data: { code: 'a' }, transactionId });
    await refused(commit(transactionId), 409, 'row_unique_constraint_violation');
    const other = await open();
    await db.updateRow({ ...T, rowId: 'a', data: { n: 'text' }, transactionId: other });
    await refused(commit(other), 400, 'row_invalid_structure', /"n"/);
    assert.equal(await rows(), 'a1 b2 c3');
  });

  test('holds a hundred operations', async () => {
    const transactionId = await open();
    const operations = Array.from({ length: 100 }, (_, n) => op('create', `x${n}`, { n }));
    const many = { transactionId, operations: [...operations, op('delete', 'a')] };
    await refused(db.createOperations(many), 400, 'transaction_limit_exceeded');
    await db.createOperations({ transactionId, operations });
    const more = db.deleteRow({ ...T, rowId: 'a', transactionId });
    await refused(more, 400, 'transaction_limit_exceeded');
    await commit(transactionId);
    assert.equal((await db.listRows(T)).total, 103);
  });

  test('is nobody else’s business', async () => {
    const transactionId = await open();
    const guest = server.tables(null);
    await refused(guest.getTransaction({ transactionId }), 404, 'transaction_not_found');
    await refused(commit(transactionId, guest), 404, 'transaction_not_found');
    // No caller opens one who may write nowhere.
    await refused(open(guest), 401, 'user_unauthorized');
    const permissions = ['create("any")'];
    await db.createTable({ databaseId: 'd', tableId: 'open', name: 'Open', permissions });
    const own = await open(guest);
    const update = guest.updateRow({ ...T, rowId: 'a', data: { n: 1 }, transactionId: own });
    await refused(update, 401, 'user_unauthorized');
    assert.equal((await db.getTransaction({ transactionId: own })).operations, 0);
  });

  test('is the same in the older family', async () => {
    const older = new Databases(server.client());
    const C = { databaseId: 'd', collectionId: 't' };
    const { $id: transactionId } = await older.createTransaction();
    const operations = [{ action: 'create', ...C, documentId: 'x', data: { n: 9 } }];
    await older.createOperations({ transactionId, operations });
    await older.updateDocument({ ...C, documentId: 'a', data: { n: 5 }, transactionId });
    assert.equal(await rows(transactionId), 'a5 b2 c3 x9');
    const ended = await older.updateTransaction({ transactionId, commit: true });
    assert.equal(ended.status, 'committed');
    assert.equal(await rows(), 'a5 b2 c3 x9');
  });
});

test('what is staged survives the death of the server', async () => {
  const transactionId = await open();
  await db.updateRow({ ...T, rowId: 'a', data: { n: 5 }, transactionId });
  const operations = [op('create', 'x', { n: 9, name: 'é"\\' })];
  await db.createOperations({ transactionId, operations });
  server.process.kill('SIGKILL');
  await server.exited;
  server = await server.serveAgain();
  db = server.tables();
  assert.equal((await db.getTransaction({ transactionId })).operations, 2);
  assert.deepEqual([await rows(transactionId), await rows()], ['a5 b2 c3 x9', 'a1 b2 c3']);
  assert.equal((await commit(transactionId)).status, 'committed');
  const { name } = await db.getRow({ ...T, rowId: 'x' });
  assert.deepEqual([await rows(), name], ['a5 b2 c3 x9', 'é"\\']);
});
