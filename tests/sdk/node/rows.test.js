// Rows through their life: create, createRows, get, update, upsert, delete.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ID } from 'node-appwrite';
import { refused, Server } from './server.js';

const WIRE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/;
const T = { databaseId: 'd', tableId: 't' };
const ROUTE = '/tablesdb/d/tables/t/rows';

const COLUMNS = [
  { key: 'name', type: 'varchar', size: 64, required: true },
  { key: 'age', type: 'integer', required: false },
  { key: 'level', type: 'integer', required: false, default: 3 },
  { key: 'code', type: 'varchar', size: 20, required: false },
  { key: 'note', type: 'text', required: false },
  { key: 'tags', type: 'varchar', size: 20, required: false, array: true },
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

const create = (rowId, data, permissions) => db.createRow({ ...T, rowId, data, permissions });
const get = (rowId) => db.getRow({ ...T, rowId });
const update = (rowId, data, permissions) => db.updateRow({ ...T, rowId, data, permissions });
const upsert = (rowId, data, permissions) => db.upsertRow({ ...T, rowId, data, permissions });

describe('create and get', () => {
  test('a row carries its system fields, nulls, empty arrays and defaults', async () => {
    const made = await create('shape', { name: 'Ada' });
    const { $sequence, $createdAt, $updatedAt, ...rest } = made;
    assert.deepEqual(rest, {
      $id: 'shape',
      $tableId: 't',
      $databaseId: 'd',
      $permissions: [],
      name: 'Ada',
      age: null,
      level: 3,
      code: null,
      note: null,
      tags: [],
    });
    assert.match($sequence, /^\d+$/);
    assert.match($createdAt, WIRE_TIME);
    assert.equal($updatedAt, $createdAt);
    assert.ok(Math.abs(Date.parse($createdAt) - Date.now()) < 60_000);
    assert.deepEqual(await get('shape'), made);
  });

  test('an explicit null goes before a default', async () => {
    assert.equal((await create('no-level', { name: 'A', level: null })).level, null);
  });

  test('sequences rise in the order of creation', async () => {
    const first = await create('first', { name: 'A' });
    const second = await create('second', { name: 'B' });
    assert.ok(BigInt(second.$sequence) > BigInt(first.$sequence));
  });

  test('`unique()` is replaced, an SDK id is kept', async () => {
    assert.match((await create('unique()', { name: 'A' })).$id, /^[A-Za-z0-9]{8,36}$/);
    const rowId = ID.unique();
    assert.equal((await create(rowId, { name: 'A' })).$id, rowId);
  });

  test('permissions are kept as given, `write` expanded to update and delete', async () => {
    const made = await create('granted', { name: 'A' }, ['read("any")', 'write("user:u1")']);
    assert.deepEqual(made.$permissions, [
      'read("any")',
      'update("user:u1")',
      'delete("user:u1")',
    ]);
    assert.deepEqual(await get('granted'), made);
  });

  test('data may be a JSON text; reserved keys of the server are ignored', async () => {
    const data = { name: 'Text', $sequence: '999999', $databaseId: 'x', $tableId: 'y' };
    const body = { rowId: 'as-text', data: JSON.stringify(data) };
    const { status, json } = await server.ask('POST', ROUTE, { body });
    assert.equal(status, 201);
    assert.deepEqual([json.name, json.$databaseId, json.$tableId], ['Text', 'd', 't']);
    assert.notEqual(json.$sequence, '999999');
  });

  test('a key may set the times of a row', async () => {
    const when = '2001-02-03T04:05:06.789+00:00';
    const made = await create('dated', { name: 'A', $createdAt: when, $updatedAt: when });
    assert.deepEqual([made.$createdAt, made.$updatedAt], [when, when]);
  });
});

describe('createRows', () => {
  test('all rows are made, in order, ids given where none is sent', async () => {
    const { total, rows } = await db.createRows({
      ...T,
      rows: [{ $id: 'm1', name: 'A', $permissions: ['read("any")'] }, { name: 'B' }],
    });
    assert.deepEqual([total, rows.map((row) => row.name)], [2, ['A', 'B']]);
    assert.deepEqual(rows[0].$permissions, ['read("any")']);
    assert.match(rows[1].$id, /^[A-Za-z0-9]{8,36}$/);
    assert.ok(BigInt(rows[1].$sequence) > BigInt(rows[0].$sequence));
    assert.deepEqual(await get('m1'), rows[0]);
  });

  for (const [what, last, code, type] of [
    ['an invalid row', { $id: 'half-3', name: 5 }, 400, 'row_invalid_structure'],
    ['an unknown column', { $id: 'half-3', name: 'C', colour: 1 }, 400, 'row_invalid_structure'],
    ['a missing column', { $id: 'half-3' }, 400, 'row_invalid_structure'],
    ['an id in use', { $id: 'taken', name: 'C' }, 409, 'row_already_exists'],
    ['an id twice in the call', { $id: 'half-1', name: 'C' }, 409, 'row_already_exists'],
    ['a unique value in use', { $id: 'half-3', name: 'C', code: 'T' }, 409, 'row_unique_constraint_violation'],
    ['a unique value twice', { $id: 'half-3', name: 'C', code: 'H' }, 409, 'row_unique_constraint_violation'],
  ]) {
    test(`${what} makes no row at all: ${type}`, async () => {
      await upsert('taken', { name: 'Taken', code: 'T' });
      const rows = [{ $id: 'half-1', name: 'A', code: 'H' }, { $id: 'half-2', name: 'B' }, last];
      await refused(db.createRows({ ...T, rows }), code, type);
      await refused(get('half-1'), 404, 'row_not_found');
      await refused(get('half-2'), 404, 'row_not_found');
    });
  }

  test('100 rows of 60,000 characters are taken, 101 rows are refused', async () => {
    const rows = Array.from({ length: 101 }, (_, n) => ({ $id: `big-${n}`, name: `${n}` }));
    await refused(db.createRows({ ...T, rows }), 400, 'general_argument_invalid');
    await refused(get('big-0'), 404, 'row_not_found');
    const wide = rows.slice(0, 100).map((row) => ({ ...row, note: 'x'.repeat(60_000) }));
    assert.equal((await db.createRows({ ...T, rows: wide })).total, 100);
    assert.equal((await get('big-99')).note.length, 60_000);
  });
});

describe('update', () => {
  test('only the named columns change; system fields stay', async () => {
    const made = await create('partial', { name: 'A', age: 1, tags: ['x'] }, ['read("any")']);
    const changed = await update('partial', { age: 2 });
    assert.deepEqual(
      { ...changed, $updatedAt: null, age: null },
      { ...made, $updatedAt: null, age: null },
    );
    assert.equal(changed.age, 2);
    assert.ok(changed.$updatedAt >= made.$updatedAt);
    assert.deepEqual(await get('partial'), changed);
  });

  test('null clears an optional column, an array becomes empty', async () => {
    await create('cleared', { name: 'A', age: 1, tags: ['x'] });
    const changed = await update('cleared', { age: null, tags: null });
    assert.deepEqual([changed.age, changed.tags], [null, []]);
  });

  test('a change of nothing keeps the time', async () => {
    const when = '2001-02-03T04:05:06.789+00:00';
    await create('still', { name: 'A', $createdAt: when, $updatedAt: when });
    assert.equal((await update('still', { name: 'A' })).$updatedAt, when);
    assert.notEqual((await update('still', { name: 'B' })).$updatedAt, when);
  });

  test('permissions change alone and stay when omitted', async () => {
    await create('perms', { name: 'A' }, ['read("any")']);
    const changed = await update('perms', undefined, ['read("users")']);
    assert.deepEqual([changed.name, changed.$permissions], ['A', ['read("users")']]);
    assert.deepEqual((await update('perms', { name: 'B' })).$permissions, ['read("users")']);
    assert.deepEqual((await update('perms', { name: 'B' }, [])).$permissions, []);
  });
});

describe('upsert', () => {
  test('an absent row is made, a present one is merged, both with 200', async () => {
    const ask = (data) => server.ask('PUT', `${ROUTE}/put`, { body: { data } });
    const made = await ask({ name: 'A', age: 1 });
    assert.equal(made.status, 200);
    assert.deepEqual([made.json.$id, made.json.name, made.json.level], ['put', 'A', 3]);
    const merged = await ask({ age: 2 });
    assert.equal(merged.status, 200);
    assert.deepEqual([merged.json.name, merged.json.age], ['A', 2]);
    assert.equal(merged.json.$sequence, made.json.$sequence);
    assert.equal(merged.json.$createdAt, made.json.$createdAt);
  });

  test('through the SDK both ways give the row', async () => {
    assert.equal((await upsert('put-sdk', { name: 'A' }, ['read("any")'])).name, 'A');
    const merged = await upsert('put-sdk', { name: 'B' });
    assert.deepEqual([merged.name, merged.$permissions], ['B', ['read("any")']]);
    assert.deepEqual(await get('put-sdk'), merged);
  });

  test('permissions inside the data of an upsert count', async () => {
    const made = await upsert('put-perms', { name: 'A', $permissions: ['read("any")'] });
    assert.deepEqual(made.$permissions, ['read("any")']);
  });
});

describe('delete', () => {
  test('a deleted row is gone; its id makes a row again, at its old sequence', async () => {
    const made = await create('brief', { name: 'A' });
    const { status, text } = await server.ask('DELETE', `${ROUTE}/brief`, { body: {} });
    assert.deepEqual([status, text], [204, '']);
    await refused(get('brief'), 404, 'row_not_found');
    await refused(db.deleteRow({ ...T, rowId: 'brief' }), 404, 'row_not_found');
    const again = await create('brief', { name: 'B' });
    assert.deepEqual([again.name, again.$sequence], ['B', made.$sequence]);
  });

  test('through the SDK', async () => {
    await create('brief-sdk', { name: 'A', code: 'freed' });
    await db.deleteRow({ ...T, rowId: 'brief-sdk' });
    await refused(get('brief-sdk'), 404, 'row_not_found');
    assert.equal((await create('heir', { name: 'B', code: 'freed' })).code, 'freed');
  });
});

describe('refusals', () => {
  before(async () => {
    await create('there', { name: 'There', code: 'THERE' });
    await create('other', { name: 'Other', code: 'OTHER' });
  });
  const STRUCTURE = [400, 'row_invalid_structure', /^Invalid document structure: /];
  const nowhere = { databaseId: 'd', tableId: 'nowhere', rowId: 'r' };

  for (const [what, call, code, type, message] of [
    ['an id in use', () => create('there', { name: 'A' }), 409, 'row_already_exists'],
    ['a unique value in use on create', () => create('new', { name: 'A', code: 'THERE' }), 409, 'row_unique_constraint_violation'],
    ['a unique value in use on update', () => update('other', { code: 'THERE' }), 409, 'row_unique_constraint_violation'],
    ['a unique value in use on upsert', () => upsert('other', { code: 'THERE' }), 409, 'row_unique_constraint_violation'],
    ['an unknown column', () => create('new', { name: 'A', colour: 1 }), ...STRUCTURE.slice(0, 2), /colour/],
    ['a missing column', () => create('new', { age: 1 }), ...STRUCTURE.slice(0, 2), /name/],
    ['null in a required column', () => create('new', { name: null }), ...STRUCTURE],
    ['a wrong type on update', () => update('there', { age: 'old' }), ...STRUCTURE.slice(0, 2), /age/],
    ['a missing column on upsert of no row', () => upsert('new', { age: 1 }), ...STRUCTURE],
    ['an absent row', () => get('nobody'), 404, 'row_not_found'],
    ['update of an absent row', () => update('nobody', { age: 1 }), 404, 'row_not_found'],
    ['delete of an absent row', () => db.deleteRow({ ...T, rowId: 'nobody' }), 404, 'row_not_found'],
    ['get in no table', () => db.getRow(nowhere), 404, 'table_not_found'],
    ['create in no table', () => db.createRow({ ...nowhere, data: { a: 1 } }), 404, 'table_not_found'],
    ['list in no database', () => db.listRows({ databaseId: 'nowhere', tableId: 't' }), 404, 'database_not_found'],
    ['create with empty data', () => create('new', {}), 400, 'row_missing_data'],
    ['update with empty data', () => update('there', {}), 400, 'row_missing_payload'],
    ['a row id with a slash-free bad start', () => create('-x', { name: 'A' }), 400, 'general_argument_invalid', /`rowId`/],
    ['a row id of 37 characters', () => create('x'.repeat(37), { name: 'A' }), 400, 'general_argument_invalid', /`rowId`/],
    ['create in row permissions', () => create('new', { name: 'A' }, ['create("any")']), 400, 'general_argument_invalid', /`permissions`/],
    ['an unreadable permission', () => create('new', { name: 'A' }, ['read']), 400, 'general_argument_invalid', /`permissions`/],
  ]) {
    test(`${what}: ${code} ${type}`, () => refused(call(), code, type, message));
  }

  for (const [what, method, body, code, type] of [
    ['neither data nor rows', 'POST', {}, 400, 'row_missing_data'],
    ['data without a row id', 'POST', { data: { name: 'A' } }, 400, 'row_missing_data'],
    ['data and rows', 'POST', { rowId: 'x', data: { name: 'A' }, rows: [{ name: 'B' }] }, 400, 'general_bad_request'],
    ['rows and a row id', 'POST', { rowId: 'x', rows: [{ name: 'B' }] }, 400, 'general_bad_request'],
    ['rows and permissions', 'POST', { rows: [{ name: 'B' }], permissions: ['read("any")'] }, 400, 'general_bad_request'],
    ['data that is a list', 'POST', { rowId: 'x', data: [1] }, 400, 'general_argument_invalid'],
    ['data that is a number', 'POST', { rowId: 'x', data: 5 }, 400, 'general_argument_invalid'],
    ['data that is no JSON text', 'POST', { rowId: 'x', data: '{' }, 400, 'general_argument_invalid'],
    ['rows that are no list', 'POST', { rows: { name: 'B' } }, 400, 'general_argument_invalid'],
  ]) {
    test(`${what}: ${code} ${type}`, async () => {
      const { status, json } = await server.ask(method, ROUTE, { body });
      assert.deepEqual([status, json.type], [code, type], json.message);
    });
  }

  test('null values do not collide in a unique index', async () => {
    await create('null-1', { name: 'A', code: null });
    await create('null-2', { name: 'B', code: null });
  });
});
