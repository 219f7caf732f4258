// Many rows at once, counting columns, and the operators that the SDK writes.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Condition, Databases, Operator, Query } from 'node-appwrite';
import { refused, Server } from './server.js';

const T = { databaseId: 'd', tableId: 't' };
const COLUMNS = [
  { key: 'name', type: 'varchar', size: 64, required: true },
  { key: 'n', type: 'integer' },
  { key: 'level', type: 'integer', min: 0, max: 10, default: 3 },
  { key: 'price', type: 'double' },
  { key: 'done', type: 'boolean' },
  { key: 'code', type: 'varchar', size: 20 },
  { key: 'tags', type: 'varchar', size: 20, array: true },
  { key: 'at', type: 'datetime' },
];
const INDEXES = [{ key: 'one_code', type: 'unique', attributes: ['code'] }];

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  await db.createTable({ ...T, name: 'T', rowSecurity: true, columns: COLUMNS, indexes: INDEXES });
});
after(() => server.close());

const get = (rowId) => db.getRow({ ...T, rowId });
const ids = ({ rows }) => rows.map((row) => row.$id);

/** Leaves exactly the rows r0, r1 … with `n` from 0 on. */
async function reset(count) {
  await db.deleteRows(T);
  for (let from = 0; from < count; from += 100) {
    const rows = Array.from({ length: Math.min(100, count - from) }, (_, nth) => {
      const n = from + nth;
      return { $id: `r${n}`, name: `row ${n}`, n };
    });
    await db.createRows({ ...T, rows });
  }
}

describe('many rows', () => {
  test('updateRows changes what matches', async () => {
    await reset(5);
    const queries = [Query.greaterThan('n', 2)];
    const changed = await db.updateRows({ ...T, data: { price: 1.5 }, queries });
    assert.deepEqual([changed.total, ids(changed)], [2, ['r3', 'r4']]);
    assert.deepEqual(await get('r4'), changed.rows[1]);
    assert.equal((await get('r2')).price, null);
  });

  test('updateRows without queries changes all, and shows a hundred', async () => {
    await reset(1_150);
    const changed = await db.updateRows({ ...T, data: { done: true } });
    assert.deepEqual([changed.total, changed.rows.length], [1_150, 100]);
    const { total } = await db.listRows({ ...T, queries: [Query.equal('done', true)] });
    assert.equal(total, 1_150);
  });

  test('deleteRows takes what matches', async () => {
    await reset(5);
    const queries = [Query.orderDesc('n'), Query.limit(2)];
    const gone = await db.deleteRows({ ...T, queries });
    assert.deepEqual([gone.total, ids(gone), gone.rows[0].n], [2, ['r4', 'r3'], 4]);
    assert.deepEqual(ids(await db.listRows(T)), ['r0', 'r1', 'r2']);
    assert.equal((await db.deleteRows(T)).total, 3);
    const none = await db.deleteRows(T);
    assert.deepEqual([none.total, none.rows], [0, []]);
  });

  test('upsertRows creates and merges', async () => {
    await reset(1);
    const rows = [{ $id: 'r0', n: 9 }, { $id: 'new', name: 'x', $permissions: ['read("any")'] }];
    const put = await db.upsertRows({ ...T, rows });
    assert.deepEqual([put.total, ids(put)], [2, ['r0', 'new']]);
    assert.deepEqual([put.rows[0].name, put.rows[0].n], ['row 0', 9]);
    assert.deepEqual(put.rows[1].$permissions, ['read("any")']);
    const twice = db.upsertRows({ ...T, rows: [{ $id: 'a', name: 'x' }, { $id: 'a', name: 'y' }] });
    await refused(twice, 409, 'row_already_exists');
    const half = db.upsertRows({ ...T, rows: [{ $id: 'r0', n: 1 }, { $id: 'bad', n: 1 }] });
    await refused(half, 400, 'row_invalid_structure', /^Invalid document structure: .*"name"/);
    assert.equal((await get('r0')).n, 9);
  });

  test('what many rows refuse', async () => {
    await reset(2);
    await refused(db.updateRows({ ...T, data: {} }), 400, 'row_missing_payload');
    await refused(db.updateRows({ ...T, data: { none: 1 } }), 400, 'row_invalid_structure');
    const same = db.updateRows({ ...T, data: { code: 'same' } });
    await refused(same, 409, 'row_unique_constraint_violation');
    assert.equal((await get('r0')).code, null);
    for (const call of [
      (guest) => guest.updateRows({ ...T, data: { n: 1 } }),
      (guest) => guest.upsertRows({ ...T, rows: [{ name: 'x' }] }),
      (guest) => guest.deleteRows(T),
    ]) {
      await refused(call(server.tables(null)), 401, 'general_unauthorized_scope');
    }
  });

  test('the legacy service writes many, too', async () => {
    await reset(2);
    const older = new Databases(server.client());
    const D = { databaseId: 'd', collectionId: 't' };
    const changed = await older.updateDocuments({ ...D, data: { n: 7 } });
    assert.deepEqual([changed.total, changed.documents[1].n], [2, 7]);
    const put = await older.upsertDocuments({ ...D, documents: [{ $id: 'a', name: 'x' }] });
    assert.equal(put.documents[0].$collectionId, 't');
    const up = await older.incrementDocumentAttribute({ ...D, documentId: 'r0', attribute: 'n' });
    assert.equal(up.n, 8);
    assert.equal((await older.deleteDocuments(D)).total, 3);
  });
});

describe('counting', () => {
  const r0 = { ...T, rowId: 'r0', column: 'n' };

  test('columns go up and down within their bounds', async () => {
    await reset(1);
    assert.equal((await db.incrementRowColumn(r0)).n, 1);
    assert.equal((await db.incrementRowColumn({ ...r0, value: 9, max: 10 })).n, 10);
    assert.equal((await db.decrementRowColumn({ ...r0, value: 4, min: 6 })).n, 6);
    await refused(db.incrementRowColumn({ ...r0, max: 6 }), 400, 'column_limit_exceeded');
    await refused(db.decrementRowColumn({ ...r0, min: 6 }), 400, 'column_limit_exceeded');
    await refused(db.incrementRowColumn({ ...r0, column: 'name' }), 400, 'attribute_type_invalid');
    await refused(db.incrementRowColumn({ ...r0, column: 'x' }), 404, 'column_not_found');
    await refused(db.incrementRowColumn({ ...r0, rowId: 'x' }), 404, 'column_not_found');
    await refused(db.incrementRowColumn({ ...r0, value: 0 }), 400, 'general_argument_invalid');
    assert.equal((await get('r0')).n, 6);
  });

  test('nothing is lost between clients that count at once', async () => {
    await reset(1);
    const add = () => db.incrementRowColumn({ ...r0, value: 3 });
    const data = { price: Operator.increment(1) };
    const operate = () => db.updateRow({ ...T, rowId: 'r0', data });
    await Promise.all(Array.from({ length: 20 }, (_, nth) => (nth % 2 ? add() : operate())));
    const row = await get('r0');
    assert.deepEqual([row.n, row.price], [30, 10]);
  });

  test('integers beyond 2^53 stay exact', async () => {
    await reset(1);
    await db.updateRow({ ...T, rowId: 'r0', data: { n: 9007199254740993n } });
    assert.equal((await db.incrementRowColumn({ ...r0, value: 2 })).n, 9007199254740995n);
    await db.updateRow({ ...T, rowId: 'r0', data: { n: 9223372036854775807n } });
    await refused(db.incrementRowColumn(r0), 400, 'column_limit_exceeded');
  });
});

describe('operators', () => {
  const TAGS = ['a', 'b', 'a'];
  const FROM = { n: 7, price: 9, done: false, name: 'abc', tags: TAGS, at: '2026-01-01' };
  const onlyO = [Query.equal('$id', 'o')];
  for (const [name, column, operator, expected] of [
    ['increment', 'n', Operator.increment(5, 10), 10],
    ['decrement', 'n', Operator.decrement(5, 3), 3],
    ['multiply', 'n', Operator.multiply(3), 21],
    ['divide', 'n', Operator.divide(2), 3],
    ['modulo', 'n', Operator.modulo(4), 3],
    ['power', 'n', Operator.power(2), 49],
    ['power of a float', 'price', Operator.power(0.5), 3],
    ['arrayAppend', 'tags', Operator.arrayAppend(['c']), ['a', 'b', 'a', 'c']],
    ['arrayPrepend', 'tags', Operator.arrayPrepend(['c', 'd']), ['c', 'd', 'a', 'b', 'a']],
    ['arrayInsert', 'tags', Operator.arrayInsert(1, 'x'), ['a', 'x', 'b', 'a']],
    ['arrayRemove', 'tags', Operator.arrayRemove('a'), ['b']],
    ['arrayUnique', 'tags', Operator.arrayUnique(), ['a', 'b']],
    ['arrayIntersect', 'tags', Operator.arrayIntersect(['b', 'z']), ['b']],
    ['arrayDiff', 'tags', Operator.arrayDiff(['b', 'z']), ['a', 'a']],
    ['arrayFilter', 'tags', Operator.arrayFilter(Condition.NotEqual, 'a'), ['b']],
    ['arrayFilter isNotNull', 'tags', Operator.arrayFilter(Condition.IsNotNull), ['a', 'b', 'a']],
    ['stringConcat', 'name', Operator.stringConcat('!'), 'abc!'],
    ['stringReplace', 'name', Operator.stringReplace('b', 'x'), 'axc'],
    ['toggle', 'done', Operator.toggle(), true],
    ['dateAddDays', 'at', Operator.dateAddDays(31), '2026-02-01T00:00:00.000+00:00'],
    ['dateSubDays', 'at', Operator.dateSubDays(1), '2025-12-31T00:00:00.000+00:00'],
  ]) {
    test(name, async () => {
      for (const write of [
        async (data) => db.updateRow({ ...T, rowId: 'o', data }),
        async (data) => db.upsertRow({ ...T, rowId: 'o', data }),
        async (data) => (await db.updateRows({ ...T, data, queries: onlyO })).rows[0],
        async (data) => (await db.upsertRows({ ...T, rows: [{ $id: 'o', ...data }] })).rows[0],
      ]) {
        await db.upsertRow({ ...T, rowId: 'o', data: FROM });
        const row = await write({ [column]: operator });
        assert.deepEqual(row[column], expected);
        assert.deepEqual(await get('o'), row);
      }
    });
  }

  test('dateSetNow is the time of the write', async () => {
    const data = { name: 'x', at: Operator.dateSetNow() };
    const row = await db.upsertRow({ ...T, rowId: 'o', data });
    assert.equal(row.at, row.$updatedAt);
  });

  test('a new row goes on from defaults', async () => {
    const data = {
      name: Operator.stringConcat('x'),
      level: Operator.increment(2),
      tags: Operator.arrayAppend(['a']),
    };
    const row = await db.upsertRow({ ...T, rowId: 'fresh', data });
    assert.deepEqual([row.name, row.level, row.tags], ['x', 5, ['a']]);
  });

  test('what does not fit is refused and changes nothing', async () => {
    await db.upsertRow({ ...T, rowId: 'o', data: FROM });
    const before = await get('o');
    for (const data of [
      { n: Operator.multiply(9e18) },
      { level: Operator.increment(100) },
      { n: Operator.toggle() },
      { name: Operator.increment(1) },
      { name: Operator.stringConcat('x'.repeat(65)) },
      { tags: Operator.arrayAppend(['x'.repeat(21)]) },
      { tags: Operator.arrayInsert(9, 'x') },
      { done: Operator.arrayAppend(['x']) },
      { n: '{"method":"divide","values":[0]}' },
    ]) {
      const call = db.updateRow({ ...T, rowId: 'o', data });
      await refused(call, 400, 'row_invalid_structure', /^Invalid document structure: /);
    }
    assert.deepEqual(await get('o'), before);
  });
});

test('X-Appwrite-Timestamp keeps what somebody else has changed', async () => {
  await reset(1);
  const { $updatedAt } = await get('r0');
  const ask = (since, method, body = {}) => {
    const headers = { 'x-appwrite-timestamp': since };
    return server.ask(method, '/tablesdb/d/tables/t/rows/r0', { headers, body });
  };
  const stale = await ask('2020-01-01T00:00:00.000+00:00', 'PATCH', { data: { n: 1 } });
  assert.deepEqual([stale.status, stale.json.type], [409, 'row_update_conflict']);
  const broken = await ask('soon', 'PATCH', { data: { n: 1 } });
  assert.deepEqual([broken.status, broken.json.type], [400, 'general_argument_invalid']);
  assert.equal((await ask($updatedAt, 'PATCH', { data: { n: 1 } })).status, 200);
  assert.equal((await ask('2020-01-01', 'DELETE')).status, 409);
  assert.equal((await ask('9999-01-01', 'DELETE')).status, 204);
});
