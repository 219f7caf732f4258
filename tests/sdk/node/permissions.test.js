// What a guest may do, and what a key may, by table permissions and row security.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ID, Query as Q } from 'node-appwrite';
import { refused, Server } from './server.js';

const COLUMNS = [{ key: 'n', type: 'integer', required: false }];
const SCOPE = [401, 'general_unauthorized_scope'];
const REFUSED = [401, 'user_unauthorized'];

let server;
let key;
let guest;
before(async () => {
  server = await Server.start();
  key = server.tables();
  guest = server.tables(null);
  await key.create({ databaseId: 'd', name: 'D' });
});
after(() => server.close());

/** A table with these settings and rows `{id: permissions}`; n counts from 1. */
async function make(settings, rows = {}) {
  const table = { databaseId: 'd', tableId: ID.unique() };
  await key.createTable({ ...table, name: 'T', columns: COLUMNS, ...settings });
  const numbered = ([$id, $permissions], place) => ({ $id, $permissions, n: place + 1 });
  const list = Object.entries(rows).map(numbered);
  if (list.length > 0) await key.createRows({ ...table, rows: list });
  return table;
}

const ids = (list) => list.rows.map((row) => row.$id).join(' ');

describe('a guest reads', () => {
  const rows = {
    open: ['read("any")'],
    guests: ['read("guests")'],
    users: ['read("users")'],
    one: ['read("user:u1")'],
    writable: ['update("any")'],
    none: [],
  };
  for (const [what, settings, seen] of [
    ['nothing without a grant', {}, null],
    ['nothing by a grant to users', { permissions: ['read("users")'] }, null],
    ['nothing by grants to act', { permissions: ['write("any")'] }, null],
    ['every row by read("any")', { permissions: ['read("any")'] }, 'open guests users one writable none'],
    ['every row by read("guests")', { permissions: ['read("guests")'] }, 'open guests users one writable none'],
    ['every row by a table grant, row security or not', { permissions: ['read("any")'], rowSecurity: true }, 'open guests users one writable none'],
    ['rows granted one by one', { rowSecurity: true }, 'open guests'],
    ['rows granted, when the table grants users', { permissions: ['read("users")'], rowSecurity: true }, 'open guests'],
  ]) {
    test(what, async () => {
      const table = await make(settings, rows);
      if (seen === null) {
        await refused(guest.listRows(table), ...REFUSED);
      } else {
        const list = await guest.listRows(table);
        assert.deepEqual([ids(list), list.total], [seen, seen.split(' ').length]);
      }
      const visible = seen?.split(' ') ?? [];
      for (const rowId of Object.keys(rows)) {
        const call = guest.getRow({ ...table, rowId });
        if (visible.includes(rowId)) assert.equal((await call).$id, rowId);
        else await refused(call, 404, 'row_not_found');
      }
      assert.equal((await key.listRows(table)).total, 6);
    });
  }

  test('filters, totals and pages see only what the guest may', async () => {
    const table = await make({ rowSecurity: true }, {
      a: ['read("any")'], b: [], c: ['read("guests")'], d: [], e: ['read("any")'],
    });
    const ask = async (...queries) => {
      const list = await guest.listRows({ ...table, queries });
      return [ids(list), list.total];
    };
    assert.deepEqual(await ask(Q.greaterThan('n', 1)), ['c e', 2]);
    assert.deepEqual(await ask(Q.equal('$id', 'b')), ['', 0]);
    assert.deepEqual(await ask(Q.limit(1), Q.offset(1)), ['c', 3]);
    assert.deepEqual(await ask(Q.or([Q.equal('n', 1), Q.equal('n', 2)])), ['a', 1]);
    assert.deepEqual(await ask(Q.orderDesc('n'), Q.limit(2)), ['e c', 3]);
    assert.deepEqual(await ask(Q.cursorAfter('a')), ['c e', 3]);
    // A hidden row is no cursor, as one that is not there: its place would tell what it holds.
    for (const row of ['b', 'nowhere']) {
      await refused(ask(Q.cursorAfter(row)), 400, 'general_cursor_not_found');
    }
  });
});

describe('a guest creates', () => {
  test('not without a table grant', async () => {
    const table = await make({ permissions: ['read("any")', 'update("any")'], rowSecurity: true });
    await refused(guest.createRow({ ...table, rowId: 'r', data: { n: 1 } }), ...REFUSED);
    assert.equal((await key.listRows(table)).total, 0);
  });

  test('by create("guests"), with no permission by default', async () => {
    const table = await make({ permissions: ['create("guests")'], rowSecurity: true });
    const made = await guest.createRow({ ...table, rowId: 'r', data: { n: 1 } });
    assert.deepEqual([made.$id, made.n, made.$permissions], ['r', 1, []]);
    await refused(guest.getRow({ ...table, rowId: 'r' }), 404, 'row_not_found');
  });

  test('cannot set times', async () => {
    const table = await make({ permissions: ['create("any")', 'update("any")'] });
    const old = '2001-02-03T04:05:06.789+00:00';
    const data = { n: 1, $createdAt: old, $updatedAt: old };
    const made = await guest.createRow({ ...table, rowId: 'r', data });
    assert.ok(made.$createdAt > old && made.$updatedAt > old);
    const change = { n: 2, $createdAt: old };
    const changed = await guest.updateRow({ ...table, rowId: 'r', data: change });
    // Who may not read the row is answered what was sent, and no more.
    assert.deepEqual([changed.$id, changed.n, changed.$createdAt], ['r', 2, undefined]);
    const row = await key.getRow({ ...table, rowId: 'r' });
    assert.deepEqual([row.n, row.$createdAt], [2, made.$createdAt]);
  });

  for (const [role, allowed] of [
    ['any', true],
    ['guests', true],
    ['users', false],
    ['user:u1', false],
    ['team:t1', false],
    ['label:vip', false],
  ]) {
    test(`${allowed ? 'may' : 'may not'} grant ${role}`, async () => {
      const table = await make({ permissions: ['create("any")'] });
      const permissions = [`read("${role}")`];
      const call = guest.createRow({ ...table, rowId: 'r', data: { n: 1 }, permissions });
      if (allowed) assert.deepEqual((await call).$permissions, permissions);
      else await refused(call, ...REFUSED);
    });
  }
});

describe('a guest changes and deletes', () => {
  const rows = { yours: ['update("any")', 'delete("guests")'], sealed: ['read("any")'] };
  const change = (table, rowId) => guest.updateRow({ ...table, rowId, data: { n: 9 } });
  const remove = (table, rowId) => guest.deleteRow({ ...table, rowId });

  test('by row grants under row security, without any right to read', async () => {
    const table = await make({ rowSecurity: true }, rows);
    assert.equal((await change(table, 'yours')).n, 9);
    await remove(table, 'yours');
    await refused(key.getRow({ ...table, rowId: 'yours' }), 404, 'row_not_found');
  });

  test('not without a grant: 401 when the row exists, 404 when not', async () => {
    const table = await make({ rowSecurity: true }, rows);
    await refused(change(table, 'sealed'), ...REFUSED);
    await refused(remove(table, 'sealed'), ...REFUSED);
    await refused(change(table, 'nobody'), 404, 'row_not_found');
    await refused(remove(table, 'nobody'), 404, 'row_not_found');
    assert.equal((await key.getRow({ ...table, rowId: 'sealed' })).n, 2);
  });

  test('not by row grants without row security', async () => {
    const table = await make({ permissions: ['read("any")'] }, rows);
    await refused(change(table, 'yours'), ...REFUSED);
    await refused(remove(table, 'yours'), ...REFUSED);
  });

  test('every row by table grants', async () => {
    const table = await make({ permissions: ['update("any")', 'delete("any")'] }, rows);
    assert.equal((await change(table, 'sealed')).n, 9);
    await remove(table, 'sealed');
  });

  test('upsert needs update of a row that exists and create of one that does not', async () => {
    const put = (table, rowId) => guest.upsertRow({ ...table, rowId, data: { n: 9 } });
    const updatable = await make({ permissions: ['update("any")'] }, rows);
    assert.equal((await put(updatable, 'sealed')).n, 9);
    await refused(put(updatable, 'new'), ...REFUSED);
    const creatable = await make({ permissions: ['create("any")'] }, rows);
    assert.equal((await put(creatable, 'new')).n, 9);
    await refused(put(creatable, 'sealed'), ...REFUSED);
  });

  test('may not grant roles it does not hold', async () => {
    const table = await make({ permissions: ['update("any")'] }, rows);
    const call = guest.updateRow({ ...table, rowId: 'yours', permissions: ['read("users")'] });
    await refused(call, ...REFUSED);
  });
});

describe('disabled', () => {
  test('a disabled table is absent for guests, whole for keys', async () => {
    const table = await make({ permissions: ['read("any")', 'write("any")'] }, { r: [] });
    await key.updateTable({ ...table, enabled: false });
    await refused(guest.listRows(table), 404, 'table_not_found');
    await refused(guest.getRow({ ...table, rowId: 'r' }), 404, 'table_not_found');
    const create = guest.createRow({ ...table, rowId: 'x', data: { n: 1 } });
    await refused(create, 404, 'table_not_found');
    assert.equal((await key.listRows(table)).total, 1);
    await key.updateTable({ ...table, enabled: true });
    assert.equal((await guest.listRows(table)).total, 1);
  });

  test('a disabled database is absent for guests, whole for keys', async () => {
    const table = { databaseId: 'off', tableId: 't' };
    await key.create({ databaseId: 'off', name: 'Off' });
    await key.createTable({ ...table, name: 'T', columns: COLUMNS, permissions: ['read("any")'] });
    await key.update({ databaseId: 'off', name: 'Off', enabled: false });
    await refused(guest.listRows(table), 404, 'database_not_found');
    assert.equal((await key.listRows(table)).total, 0);
  });
});

describe('routes for keys only', () => {
  const T = { databaseId: 'd', tableId: 'closed' };
  before(async () => {
    const permissions = ['read("any")', 'create("any")', 'write("any")'];
    await key.createTable({ ...T, name: 'C', columns: COLUMNS, permissions });
  });
  for (const [what, call] of Object.entries({
    'list databases': (db) => db.list(),
    'create a database': (db) => db.create({ databaseId: 'x', name: 'X' }),
    'get a database': (db) => db.get({ databaseId: 'd' }),
    'update a database': (db) => db.update({ databaseId: 'd', name: 'X' }),
    'delete a database': (db) => db.delete({ databaseId: 'd' }),
    'list tables': (db) => db.listTables({ databaseId: 'd' }),
    'create a table': (db) => db.createTable({ databaseId: 'd', tableId: 'x', name: 'X' }),
    'get a table': (db) => db.getTable(T),
    'update a table': (db) => db.updateTable({ ...T, name: 'X' }),
    'purge a table': (db) => db.updateTable({ ...T, purge: true }),
    'delete a table': (db) => db.deleteTable(T),
    'create rows in bulk': (db) => db.createRows({ ...T, rows: [{ n: 1 }] }),
    'update rows in bulk': (db) => db.updateRows({ ...T, data: { n: 1 } }),
    'upsert rows in bulk': (db) => db.upsertRows({ ...T, rows: [{ $id: 'r', n: 1 }] }),
    'delete rows in bulk': (db) => db.deleteRows(T),
    'list columns': (db) => db.listColumns(T),
    'list indexes': (db) => db.listIndexes(T),
  })) {
    test(`${what}: 401 for a guest and for a garbled key`, async () => {
      await refused(call(guest), ...SCOPE);
      await refused(call(server.tables('standard_nonsense')), ...SCOPE);
    });
  }

  test('a garbled key is refused where guests may', async () => {
    assert.equal((await guest.listRows(T)).total, 0);
    await refused(server.tables('nonsense').listRows(T), ...SCOPE);
  });
});

test('a key grants any role and skips every check', async () => {
  const table = await make({ rowSecurity: true });
  const permissions = ['read("user:u1")', 'update("team:t1/owner")', 'delete("label:vip")'];
  const made = await key.createRow({ ...table, rowId: 'r', data: { n: 1 }, permissions });
  assert.deepEqual(made.$permissions, permissions);
  assert.equal((await key.updateRow({ ...table, rowId: 'r', data: { n: 2 } })).n, 2);
  await key.deleteRow({ ...table, rowId: 'r' });
});
