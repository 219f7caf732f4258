// Databases and tables: their whole life, their shape, their lists and their refusals.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ID, Query } from 'node-appwrite';
import { refused, Server } from './server.js';

const WIRE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/;

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
});
after(() => server.close());

describe('databases', () => {
  test('a database has the documented shape from create to get', async () => {
    const made = await db.create({ databaseId: 'shape', name: 'Shape' });
    const { $createdAt, $updatedAt, ...rest } = made;
    assert.deepEqual(rest, {
      $id: 'shape',
      name: 'Shape',
      description: '',
      enabled: true,
      type: 'tablesdb',
      status: 'ready',
      policies: [],
      archives: [],
    });
    assert.match($createdAt, WIRE_TIME);
    assert.match($updatedAt, WIRE_TIME);
    assert.deepEqual(await db.get({ databaseId: 'shape' }), made);
  });

  test('name and enabled change one at a time', async () => {
    await db.create({ databaseId: 'renamed', name: 'Old' });
    assert.equal((await db.update({ databaseId: 'renamed', name: 'New' })).enabled, true);
    const off = await db.update({ databaseId: 'renamed', name: 'New', enabled: false });
    assert.deepEqual([off.name, off.enabled], ['New', false]);
    assert.equal((await db.get({ databaseId: 'renamed' })).enabled, false);
  });

  test('a deleted database is gone with its tables', async () => {
    await db.create({ databaseId: 'gone', name: 'Gone' });
    await db.createTable({ databaseId: 'gone', tableId: 't', name: 'T' });
    await db.delete({ databaseId: 'gone' });
    await refused(db.get({ databaseId: 'gone' }), 404, 'database_not_found');
    await refused(db.getTable({ databaseId: 'gone', tableId: 't' }), 404, 'database_not_found');
    await db.create({ databaseId: 'gone', name: 'Again' });
    await refused(db.getTable({ databaseId: 'gone', tableId: 't' }), 404, 'table_not_found');
  });

  test('lists filter, search, page and count', async () => {
    for (const name of ['Alder', 'Birch', 'Cedar']) {
      await db.create({ databaseId: `tree-${name.toLowerCase()}`, name });
    }
    const ids = async (params) => {
      const list = await db.list(params);
      return [list.total, ...list.databases.map((database) => database.$id)];
    };
    const birch = [1, 'tree-birch'];
    assert.deepEqual(await ids({ queries: [Query.equal('name', 'Birch')] }), birch);
    assert.deepEqual(await ids({ queries: [Query.equal('$id', 'tree-birch')] }), birch);
    assert.deepEqual(await ids({ search: 'irch' }), birch);
    const pair = Query.equal('name', ['Cedar', 'Alder']);
    assert.deepEqual(await ids({ queries: [pair] }), [2, 'tree-alder', 'tree-cedar']);
    const page = [pair, Query.limit(1), Query.offset(1)];
    assert.deepEqual(await ids({ queries: page }), [2, 'tree-cedar']);
    assert.deepEqual(await ids({ queries: page, total: false }), [0, 'tree-cedar']);
  });
});

describe('tables', () => {
  before(() => db.create({ databaseId: 'd', name: 'D' }));
  const make = (tableId, extra = {}) =>
    db.createTable({ databaseId: 'd', tableId, name: tableId.toUpperCase(), ...extra });

  test('a table without columns has the documented shape', async () => {
    const made = await make('bare');
    const { $createdAt, $updatedAt, bytesMax, bytesUsed, ...rest } = made;
    assert.deepEqual(rest, {
      $id: 'bare',
      $permissions: [],
      databaseId: 'd',
      name: 'BARE',
      description: '',
      enabled: true,
      rowSecurity: false,
      columns: [],
      indexes: [],
    });
    assert.match($createdAt, WIRE_TIME);
    assert.match($updatedAt, WIRE_TIME);
    assert.ok(Number.isInteger(bytesMax) && Number.isInteger(bytesUsed));
    const got = await db.getTable({ databaseId: 'd', tableId: 'bare' });
    assert.deepEqual(got, made);
  });

  test('an omitted setting stays as it was on update', async () => {
    await make('kept', { permissions: ['read("any")'], rowSecurity: true, enabled: false });
    const settings = (table) => [table.name, table.$permissions, table.rowSecurity, table.enabled];
    const update = async (change) =>
      settings(await db.updateTable({ databaseId: 'd', tableId: 'kept', ...change }));
    assert.deepEqual(await update({ name: 'Kept' }), ['Kept', ['read("any")'], true, false]);
    assert.deepEqual(await update({ purge: true }), ['Kept', ['read("any")'], true, false]);
    assert.deepEqual(await update({ enabled: true }), ['Kept', ['read("any")'], true, true]);
    assert.deepEqual(await update({ rowSecurity: false }), ['Kept', ['read("any")'], false, true]);
    assert.deepEqual(await update({ permissions: [] }), ['Kept', [], false, true]);
    const got = await db.getTable({ databaseId: 'd', tableId: 'kept' });
    assert.deepEqual(settings(got), ['Kept', [], false, true]);
  });

  test('`write` expands and duplicates go, in order', async () => {
    const made = await make('granted', {
      permissions: ['read("any")', 'write("users")', 'read("any")', 'delete("users")'],
    });
    assert.deepEqual(made.$permissions, [
      'read("any")',
      'create("users")',
      'update("users")',
      'delete("users")',
    ]);
  });

  test('a deleted table takes its rows; the id can be used anew', async () => {
    const columns = [{ key: 'n', type: 'integer', required: false }];
    const address = { databaseId: 'd', tableId: 'reborn' };
    await make('reborn', { columns });
    await db.createRow({ ...address, rowId: 'r', data: { n: 1 } });
    await db.deleteTable(address);
    await refused(db.getTable(address), 404, 'table_not_found');
    await refused(db.listRows(address), 404, 'table_not_found');
    await make('reborn', { columns });
    assert.equal((await db.listRows(address)).total, 0);
  });

  test('lists filter and search', async () => {
    await make('listed-1', { rowSecurity: true });
    await make('listed-2', { enabled: false });
    const ids = async (params) =>
      (await db.listTables({ databaseId: 'd', ...params })).tables.map((table) => table.$id);
    assert.deepEqual(await ids({ search: 'listed-2' }), ['listed-2']);
    assert.deepEqual(await ids({ queries: [Query.equal('name', 'LISTED-1')] }), ['listed-1']);
    const both = [Query.equal('$id', ['listed-1', 'listed-2'])];
    assert.deepEqual(await ids({ queries: both }), ['listed-1', 'listed-2']);
    assert.deepEqual(await ids({ queries: [...both, Query.limit(1)] }), ['listed-1']);
  });

  test('key and unique indexes come back as defined', async () => {
    const { indexes } = await make('indexed', {
      columns: [
        { key: 'a', type: 'varchar', size: 20, required: false },
        { key: 'b', type: 'integer', required: false },
      ],
      indexes: [
        { key: 'by_a_b', type: 'key', attributes: ['a', 'b'], orders: ['ASC', 'DESC'] },
        { key: 'one_b', type: 'unique', columns: ['b'] },
        { key: 'by_time', type: 'key', attributes: ['$createdAt'] },
      ],
    });
    const shape = ({ key, type, status, error, columns }) => [key, type, status, error, columns];
    assert.deepEqual(indexes.map(shape), [
      ['by_a_b', 'key', 'available', '', ['a', 'b']],
      ['one_b', 'unique', 'available', '', ['b']],
      ['by_time', 'key', 'available', '', ['$createdAt']],
    ]);
    assert.deepEqual(indexes[0].orders, ['ASC', 'DESC']);
    for (const index of indexes) {
      assert.equal(typeof index.$id, 'string');
      assert.match(index.$createdAt, WIRE_TIME);
      assert.equal(index.description, '');
      assert.ok(Array.isArray(index.lengths));
    }
  });
});

describe('columns and indexes', () => {
  const T = { databaseId: 'c', tableId: 't' };
  let table;
  before(async () => {
    await db.create({ databaseId: 'c', name: 'C' });
    const columns = ['a', 'b', 'c'].map((key) => ({ key, type: 'integer', required: false }));
    const indexes = ['a', 'b'].map((key) => ({ key: `by_${key}`, type: 'key', attributes: [key] }));
    table = await db.createTable({ ...T, name: 'T', columns, indexes });
  });

  test('each is read alone as the table shows it', async () => {
    assert.deepEqual(await db.getColumn({ ...T, key: 'b' }), table.columns[1]);
    assert.deepEqual(await db.getIndex({ ...T, key: 'by_b' }), table.indexes[1]);
    await refused(db.getColumn({ ...T, key: 'z' }), 404, 'column_not_found');
    await refused(db.getIndex({ ...T, key: 'z' }), 404, 'column_index_not_found');
  });

  test('they are listed whole, and in pages', async () => {
    const { total, columns } = await db.listColumns(T);
    assert.deepEqual([total, columns], [3, table.columns]);
    const list = await db.listIndexes(T);
    assert.deepEqual([list.total, list.indexes], [2, table.indexes]);
    const page = await db.listColumns({ ...T, queries: [Query.limit(1), Query.offset(1)] });
    assert.deepEqual([page.total, page.columns.map((column) => column.key)], [3, ['b']]);
  });
});

describe('refusals', () => {
  before(async () => {
    await db.create({ databaseId: 'r', name: 'R' });
    await db.createTable({ databaseId: 'r', tableId: 'taken', name: 'Taken' });
  });
  const table = (extra) =>
    db.createTable({ databaseId: 'r', tableId: ID.unique(), name: 'T', ...extra });
  const BAD = [400, 'general_argument_invalid'];

  for (const [what, call, code, type, message] of [
    ['a database id in use', () => db.create({ databaseId: 'r', name: 'R' }), 409, 'database_already_exists'],
    ['a table id in use', () => table({ tableId: 'taken' }), 409, 'table_already_exists'],
    ['a table in no database', () => table({ databaseId: 'nowhere' }), 404, 'database_not_found'],
    ['an absent database', () => db.get({ databaseId: 'nowhere' }), 404, 'database_not_found'],
    ['update of an absent database', () => db.update({ databaseId: 'nowhere', name: 'x' }), 404, 'database_not_found'],
    ['delete of an absent database', () => db.delete({ databaseId: 'nowhere' }), 404, 'database_not_found'],
    ['an absent table', () => db.getTable({ databaseId: 'r', tableId: 'nowhere' }), 404, 'table_not_found'],
    ['update of an absent table', () => db.updateTable({ databaseId: 'r', tableId: 'nowhere', name: 'x' }), 404, 'table_not_found'],
    ['delete of an absent table', () => db.deleteTable({ databaseId: 'r', tableId: 'nowhere' }), 404, 'table_not_found'],
    ['a database id with a bad start', () => db.create({ databaseId: '_x', name: 'X' }), ...BAD, /`databaseId`/],
    ['a database id of 37 characters', () => db.create({ databaseId: 'x'.repeat(37), name: 'X' }), ...BAD, /`databaseId`/],
    ['a table id with a space', () => table({ tableId: 'a b' }), ...BAD, /`tableId`/],
    ['a database name of 129 characters', () => db.create({ databaseId: 'long', name: 'x'.repeat(129) }), ...BAD, /`name`/],
    ['a table name of 129 characters', () => table({ name: 'x'.repeat(129) }), ...BAD, /`name`/],
    ['an unknown action in a permission', () => table({ permissions: ['see("any")'] }), ...BAD, /`permissions`/],
    ['an unknown role in a permission', () => table({ permissions: ['read("everyone")'] }), ...BAD, /`permissions`/],
    ['an id for `any`', () => table({ permissions: ['read("any:1")'] }), ...BAD, /`permissions`/],
    ['no id for `user`', () => table({ permissions: ['read("user")'] }), ...BAD, /`permissions`/],
    ['101 permissions', () => table({ permissions: Array.from({ length: 101 }, (_, n) => `read("user:u${n}")`) }), ...BAD, /`permissions`/],
    ['a filter on an unlisted attribute', () => db.list({ queries: [Query.equal('colour', 'red')] }), 400, 'general_query_invalid'],
  ]) {
    test(`${what}: ${code} ${type}`, () => refused(call(), code, type, message));
  }

  test('a name of 128 characters and an id of 36 are taken', async () => {
    const databaseId = 'x'.repeat(36);
    const made = await db.create({ databaseId, name: 'é'.repeat(128) });
    assert.deepEqual([made.$id, made.name.length], [databaseId, 128]);
  });

  test('a missing parameter is named', async () => {
    for (const [body, name] of [
      [{ name: 'X' }, 'databaseId'],
      [{ databaseId: 'x' }, 'name'],
    ]) {
      const { status, json } = await server.ask('POST', '/tablesdb', { body });
      assert.deepEqual([status, json.type], [400, 'general_argument_invalid']);
      assert.match(json.message, new RegExp(`Param "${name}" is not optional\\.`));
    }
  });

  test('`unique()` is replaced by an id of the server', async () => {
    const made = await db.create({ databaseId: 'unique()', name: 'U' });
    assert.match(made.$id, /^[A-Za-z0-9][A-Za-z0-9_.-]{7,35}$/);
  });
});
