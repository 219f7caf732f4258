// Columns and indexes that come, change and go through the SDK, before and after rows.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Databases, DatabasesIndexType, Query, TablesDBIndexType } from 'node-appwrite';
import { refused, Server } from './server.js';

const T = { databaseId: 'd', tableId: 't' };
const OLD = { databaseId: 'd', collectionId: 't' };

let server;
let db;
let old;
before(async () => {
  server = await Server.start();
  db = server.tables();
  old = new Databases(server.client());
  await db.create({ databaseId: 'd', name: 'D' });
  const columns = [{ key: 'n', type: 'integer', required: false }];
  await db.createTable({ ...T, name: 'T', columns });
  await db.createRow({ ...T, rowId: 'old', data: { n: 1 } });
});
after(() => server.close());

/** Asks until the answer's status is no longer `processing`, as user scripts do. */
async function settled(get) {
  for (;;) {
    const answer = await get();
    if (answer.status !== 'processing') return answer;
    await new Promise((resume) => setImmediate(resume));
  }
}

/** Per kind: method names after `create`/`update`, what a creation says, a change, two values. */
const kinds = [
  ['Varchar', { size: 20, xdefault: 'a' }, { size: 30, xdefault: 'b' }, ['x', 'y'.repeat(30)]],
  ['String', { size: 20 }, { size: 5, xdefault: null }, ['x', 'yyyyy']],
  ['Text', {}, { xdefault: 't' }, ['x', 'y'.repeat(60_000)]],
  ['Mediumtext', {}, { xdefault: null }, ['x', 'y'.repeat(70_000)]],
  ['Longtext', {}, { xdefault: null }, ['x', 'y'.repeat(70_000)]],
  ['Integer', { min: 0, max: 9 }, { min: -5, max: 20, xdefault: 7 }, [9, -5]],
  ['BigInt', {}, { xdefault: null }, [1, 9223372036854775807n]],
  ['Float', { min: 0 }, { min: -1, max: 2.5, xdefault: 0.5 }, [0.25, 2.5]],
  ['Boolean', { xdefault: true }, { xdefault: false }, [true, false]],
  ['Email', {}, { xdefault: null }, ['a@example.com', 'b@example.com']],
  ['Url', {}, { xdefault: null }, ['https://example.com/', 'http://example.org/']],
  ['Ip', {}, { xdefault: '::1' }, ['127.0.0.1', '::2']],
  ['Enum', { elements: ['a', 'b'] }, { elements: ['b', 'c'], xdefault: 'c' }, ['b', 'c']],
  ['Datetime', {}, { xdefault: null }, ['2026-01-31T10:00:00.000+00:00', '1999-12-31T00:00:00.000+00:00']],
];

/** The SDK spells this kind as one word or two, by its version. */
const method = (service, name) => {
  const exact = service[name] ? name : name.replace('BigInt', 'Bigint');
  assert.equal(typeof service[exact], 'function', `the SDK has no ${name}`);
  return service[exact].bind(service);
};

describe('a column of each kind', () => {
  for (const [kind, definition, change, [first, second]] of kinds) {
    test(kind, async () => {
      const key = `k${kind}`;
      const create = method(db, `create${kind}Column`);
      await create({ ...T, key, required: false, ...definition });
      const made = await settled(() => db.getColumn({ ...T, key }));
      assert.deepEqual([made.key, made.status, made.required], [key, 'available', false]);
      await db.createRow({ ...T, rowId: 'new', data: { n: 2, [key]: first } });
      assert.equal((await db.getRow({ ...T, rowId: 'old' }))[key], null);

      const newKey = `r${kind}`;
      const update = method(db, `update${kind}Column`);
      const changed = await update({ ...T, key, required: false, newKey, ...change });
      assert.equal(changed.key, newKey);
      assert.equal(changed.default, change.xdefault);
      for (const limit of ['size', 'min', 'max', 'elements']) {
        if (limit in change) assert.deepEqual(changed[limit], change[limit], limit);
      }
      await refused(db.getColumn({ ...T, key }), 404, 'column_not_found');
      assert.equal((await db.getRow({ ...T, rowId: 'new' }))[newKey], first);
      const data = { [newKey]: second };
      assert.equal((await db.updateRow({ ...T, rowId: 'old', data }))[newKey], second);
      const byDefault = await db.createRow({ ...T, rowId: 'later', data: { n: 3 } });
      assert.equal(byDefault[newKey], change.xdefault);

      await db.deleteColumn({ ...T, key: newKey });
      const { rows } = await db.listRows(T);
      assert.deepEqual(rows.map((row) => [row.$id, row.n, newKey in row]), [
        ['old', 1, false],
        ['new', 2, false],
        ['later', 3, false],
      ]);
      for (const rowId of ['new', 'later']) await db.deleteRow({ ...T, rowId });
    });
  }

  test('an array', async () => {
    await db.createVarcharColumn({ ...T, key: 'tags', size: 9, required: false, array: true });
    assert.deepEqual((await db.getRow({ ...T, rowId: 'old' })).tags, []);
    const changed = await db.updateRow({ ...T, rowId: 'old', data: { tags: ['a', 'b'] } });
    assert.deepEqual(changed.tags, ['a', 'b']);
    await db.deleteColumn({ ...T, key: 'tags' });
  });

  test('many at once', async () => {
    const keys = Array.from({ length: 20 }, (_, n) => `many${n}`);
    await Promise.all(keys.map((key) => db.createIntegerColumn({ ...T, key, required: false })));
    const queries = [Query.startsWith('key', 'many'), Query.limit(100)];
    assert.equal((await db.listColumns({ ...T, queries })).total, 20);
    await Promise.all(keys.map((key) => db.deleteColumn({ ...T, key })));
  });
});

describe('indexes', () => {
  const index = { ...T, key: 'i', type: TablesDBIndexType.Key, columns: ['n'] };

  test('one is made, read, used and deleted', async () => {
    const made = await db.createIndex({ ...index, orders: ['desc'] });
    assert.deepEqual([made.type, made.columns, made.orders], ['key', ['n'], ['DESC']]);
    const ready = await settled(() => db.getIndex({ ...T, key: 'i' }));
    assert.deepEqual([ready.status, ready.error], ['available', '']);
    assert.equal((await db.listIndexes(T)).total, 1);
    const queries = [Query.equal('n', 1), Query.orderDesc('n')];
    assert.equal((await db.listRows({ ...T, queries })).total, 1);
    await refused(db.deleteColumn({ ...T, key: 'n' }), 409, 'column_index_dependency');
    await refused(db.createIndex(index), 409, 'column_index_already_exists');
    await db.deleteIndex({ ...T, key: 'i' });
    await refused(db.getIndex({ ...T, key: 'i' }), 404, 'column_index_not_found');
    assert.equal((await db.listRows({ ...T, queries })).total, 1);
  });

  test('a unique one over equal values fails', async () => {
    await db.createRow({ ...T, rowId: 'twin', data: { n: 1 } });
    const unique = { ...index, type: TablesDBIndexType.Unique };
    await db.createIndex(unique);
    const failed = await settled(() => db.getIndex({ ...T, key: 'i' }));
    assert.equal(failed.status, 'failed');
    assert.match(failed.error, /equal values/);
    await db.deleteIndex({ ...T, key: 'i' });
    await db.deleteRow({ ...T, rowId: 'twin' });
    await db.createIndex(unique);
    await refused(
      db.createRow({ ...T, rowId: 'twin', data: { n: 1 } }), 409, 'row_unique_constraint_violation',
    );
    await db.deleteIndex({ ...T, key: 'i' });
  });
});

describe('refusals', () => {
  const column = { ...T, key: 'k', required: false };
  for (const [what, call, code, type] of [
    ['a key equal but for case', () => db.createIntegerColumn({ ...column, key: 'N' }), 409, 'column_already_exists'],
    ['min above max', () => db.createIntegerColumn({ ...column, min: 2, max: 1 }), 400, 'column_value_invalid'],
    ['a required default', () => db.createTextColumn({ ...column, required: true, xdefault: 'x' }), 400, 'column_default_unsupported'],
    ['another type', () => db.updateFloatColumn({ ...T, key: 'n', required: false, xdefault: 1 }), 400, 'column_type_invalid'],
    ['an unknown column', () => db.deleteColumn({ ...T, key: 'z' }), 404, 'column_not_found'],
    ['a key with a space', () => db.createTextColumn({ ...column, key: 'a b' }), 400, 'general_argument_invalid'],
    ['an index on nothing', () => db.createIndex({ ...T, key: 'i', type: 'key', columns: ['z'] }), 400, 'column_unknown'],
  ]) {
    test(`${what}: ${code} ${type}`, () => refused(call(), code, type));
  }

  test('a text is not cut short', async () => {
    await db.createVarcharColumn({ ...column, size: 9 });
    await db.updateRow({ ...T, rowId: 'old', data: { k: '12345' } });
    const resize = (size) => db.updateVarcharColumn({ ...column, xdefault: null, size });
    await refused(resize(4), 400, 'column_invalid_resize');
    assert.equal((await resize(5)).size, 5);
    await db.deleteColumn({ ...T, key: 'k' });
  });
});

test('a cached list sees a new column at once', async () => {
  const cached = () => db.listRows({ ...T, ttl: 300 });
  assert.ok(!('fresh' in (await cached()).rows[0]));
  await db.createIntegerColumn({ ...T, key: 'fresh', required: false });
  assert.equal((await cached()).rows[0].fresh, null);
  await db.deleteColumn({ ...T, key: 'fresh' });
  assert.ok(!('fresh' in (await cached()).rows[0]));
});

test('the older family does the same', async () => {
  await old.createStringAttribute({ ...OLD, key: 's', size: 9, required: false, xdefault: 'x' });
  const made = await settled(() => old.getAttribute({ ...OLD, key: 's' }));
  assert.deepEqual([made.status, made.size, made.default], ['available', 9, 'x']);
  const change = { ...OLD, key: 's', required: false, xdefault: 'y', newKey: 't' };
  assert.deepEqual((await old.updateStringAttribute(change)).default, 'y');
  const index = { ...OLD, key: 'i', type: DatabasesIndexType.Key, attributes: ['t'] };
  assert.deepEqual((await old.createIndex(index)).attributes, ['t']);
  await refused(old.deleteAttribute({ ...OLD, key: 't' }), 409, 'index_dependency');
  const document = { ...OLD, documentId: 'doc', data: {} };
  await refused(old.createDocument(document), 400, 'document_missing_data');
  assert.equal((await old.createDocument({ ...document, data: { n: 5 } })).t, 'y');
  await old.deleteDocument(document);
  await old.deleteIndex({ ...OLD, key: 'i' });
  await old.deleteAttribute({ ...OLD, key: 't' });
  await refused(old.getAttribute({ ...OLD, key: 't' }), 404, 'attribute_not_found');
});

test('containers are listed in any order and by what they are', async () => {
  await db.createTable({ databaseId: 'd', tableId: 'secure', name: 'A', rowSecurity: true });
  const ids = async (queries, more = {}) => {
    const { tables, total } = await db.listTables({ databaseId: 'd', queries, ...more });
    return [total, ...tables.map((table) => table.$id)];
  };
  assert.deepEqual(await ids([Query.equal('rowSecurity', true)]), [1, 'secure']);
  assert.deepEqual(await ids([Query.orderAsc('name')]), [2, 'secure', 't']);
  assert.deepEqual(await ids([Query.orderDesc('$createdAt'), Query.limit(1)]), [2, 'secure']);
  assert.deepEqual(await ids([Query.cursorAfter('t')]), [2, 'secure']);
  assert.deepEqual(await ids([], { search: 'SEC', total: false }), [0, 'secure']);
  const byType = await db.listColumns({ ...T, queries: [Query.equal('type', 'integer')] });
  assert.deepEqual(byType.columns.map((column) => column.key), ['n']);
});

test('a schema change outlives a restart', async () => {
  await db.createVarcharColumn({ ...T, key: 'kept', size: 9, required: false });
  await db.updateRow({ ...T, rowId: 'old', data: { kept: 'x' } });
  server = await server.restart();
  db = server.tables();
  assert.equal((await db.getRow({ ...T, rowId: 'old' })).kept, 'x');
  assert.equal((await db.getColumn({ ...T, key: 'kept' })).status, 'available');
});
