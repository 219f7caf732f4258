// The TTL list cache over plain HTTP, because the SDK hides the header that tells hit from miss.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ID, Query as Q } from 'node-appwrite';
import { listRoute, refused, Server } from './server.js';

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  await db.create({ databaseId: 'other', name: 'Other' });
});
after(() => server.close());

/** A new table with rows n = 1, 2, 3, readable by all. */
async function make(tableId = ID.unique(), databaseId = 'd', settings = {}) {
  const table = { databaseId, tableId };
  const columns = ['n', 'm'].map((key) => ({ key, type: 'integer', required: false }));
  await db.createTable({ ...table, name: 'T', columns, permissions: ['read("any")'], ...settings });
  await db.createRows({ ...table, rows: [1, 2, 3].map((n) => ({ $id: `r${n}`, n })) });
  return table;
}

/** `hit`, `miss` or null, with what the list said. */
async function ask({ databaseId, tableId }, queries, extra, as) {
  const route = listRoute(databaseId, tableId, queries, extra);
  const { status, headers, json, text } = await server.ask('GET', route, { as });
  assert.equal(status, 200, text);
  const numbers = json.rows.map((row) => row.n).join();
  return { cache: headers.get('x-appwrite-cache'), numbers, total: json.total, json };
}

const cache = async (...args) => (await ask(...args)).cache;
const ORDER = [Q.orderAsc('n')];
const TTL = { ttl: 60 };

test('without ttl, or with ttl 0, there is no header', async () => {
  const table = await make();
  assert.equal(await cache(table, ORDER), null);
  assert.equal(await cache(table, ORDER, TTL), 'miss');
  assert.equal(await cache(table, ORDER, { ttl: 0 }), null);
  assert.equal(await cache(table, ORDER), null);
});

test('the first call misses, the next ones hit with an equal body', async () => {
  const table = await make();
  const first = await ask(table, ORDER, TTL);
  const second = await ask(table, ORDER, TTL);
  assert.deepEqual([first.cache, second.cache], ['miss', 'hit']);
  assert.deepEqual(second.json, first.json);
  assert.deepEqual(second.json, (await ask(table, ORDER)).json);
});

test('a call without queries is cached too', async () => {
  const table = await make();
  assert.equal(await cache(table, [], TTL), 'miss');
  assert.equal(await cache(table, [], TTL), 'hit');
});

test('total=false hits the same rows and counts nothing', async () => {
  const table = await make();
  await ask(table, ORDER, TTL);
  const uncounted = await ask(table, ORDER, { ...TTL, total: false });
  assert.deepEqual([uncounted.cache, uncounted.total, uncounted.numbers], ['hit', 0, '1,2,3']);
  const counted = await ask(table, ORDER, TTL);
  assert.deepEqual([counted.cache, counted.total], ['hit', 3]);
});

test('a total is right after a fill that did not count', async () => {
  const table = await make();
  assert.equal(await cache(table, ORDER, { ...TTL, total: false }), 'miss');
  assert.equal((await ask(table, ORDER, TTL)).total, 3);
});

for (const [what, queries] of Object.entries({
  'another select': [Q.orderAsc('n'), Q.select(['n'])],
  'another filter': [Q.orderAsc('n'), Q.greaterThan('n', 0)],
  'another limit': [Q.orderAsc('n'), Q.limit(2)],
  'another order': [Q.orderDesc('n')],
  'a cursor': [Q.orderAsc('n'), Q.cursorAfter('r1')],
})) {
  test(`${what} is another entry`, async () => {
    const table = await make();
    await ask(table, ORDER, TTL);
    const first = await ask(table, queries, TTL);
    assert.equal(first.cache, 'miss');
    const second = await ask(table, queries, TTL);
    assert.equal(second.cache, 'hit');
    assert.deepEqual(second.json, first.json);
    assert.equal(await cache(table, ORDER, TTL), 'hit');
  });
}

test('row writes leave the entry: a hit may be older than the rows', async () => {
  const table = await make();
  await ask(table, ORDER, TTL);
  await db.createRow({ ...table, rowId: 'r4', data: { n: 4 } });
  await db.updateRow({ ...table, rowId: 'r1', data: { n: 0 } });
  const stale = await ask(table, ORDER, TTL);
  assert.deepEqual([stale.cache, stale.numbers, stale.total], ['hit', '1,2,3', 3]);
  const fresh = await ask(table, ORDER);
  assert.deepEqual([fresh.cache, fresh.numbers, fresh.total], [null, '0,2,3,4', 4]);
});

test('a row that is deleted takes the entries that show it', async () => {
  const table = await make();
  await ask(table, ORDER, TTL);
  await db.deleteRow({ ...table, rowId: 'r2' });
  const first = await ask(table, ORDER, TTL);
  assert.deepEqual([first.cache, first.numbers, first.total], ['miss', '1,3', 2]);
  assert.equal(await cache(table, ORDER, TTL), 'hit');
});

test('purge: miss with the new rows, then hit', async () => {
  const table = await make();
  await ask(table, ORDER, TTL);
  await ask(table, [], TTL);
  await db.createRow({ ...table, rowId: 'r4', data: { n: 4 } });
  await db.updateTable({ ...table, purge: true });
  const first = await ask(table, ORDER, TTL);
  assert.deepEqual([first.cache, first.numbers, first.total], ['miss', '1,2,3,4', 4]);
  assert.equal(await cache(table, ORDER, TTL), 'hit');
  assert.equal(await cache(table, [], TTL), 'miss');
});

test('purge of one table leaves the others', async () => {
  const [one, two] = [await make(), await make()];
  await ask(one, ORDER, TTL);
  await ask(two, ORDER, TTL);
  await db.updateTable({ ...one, purge: true });
  assert.equal(await cache(two, ORDER, TTL), 'hit');
  assert.equal(await cache(one, ORDER, TTL), 'miss');
});

test('a plain update of the table keeps the entry', async () => {
  const table = await make();
  await ask(table, ORDER, TTL);
  await db.updateTable({ ...table, name: 'Renamed' });
  assert.equal(await cache(table, ORDER, TTL), 'hit');
  const settings = { permissions: ['read("any")'], rowSecurity: false, enabled: true };
  await db.updateTable({ ...table, name: 'Renamed', ...settings, purge: false });
  assert.equal(await cache(table, ORDER, TTL), 'hit');
});

test('purge changes no setting', async () => {
  const table = await make(undefined, 'd', { rowSecurity: true, enabled: false });
  await db.updateTable({ ...table, purge: true });
  const { rowSecurity, enabled, name, $permissions } = await db.getTable(table);
  assert.deepEqual([rowSecurity, enabled, name, $permissions], [true, false, 'T', ['read("any")']]);
});

test('tables of the same id in two databases do not share', async () => {
  const here = await make('shared', 'd');
  const there = await make('shared', 'other');
  await db.createRow({ ...there, rowId: 'r9', data: { n: 9 } });
  await ask(here, ORDER, TTL);
  const first = await ask(there, ORDER, TTL);
  assert.deepEqual([first.cache, first.numbers], ['miss', '1,2,3,9']);
  await db.updateTable({ ...there, purge: true });
  assert.equal(await cache(here, ORDER, TTL), 'hit');
});

test('a table made anew does not serve its forerunner', async () => {
  const table = await make();
  await ask(table, ORDER, TTL);
  await db.deleteTable(table);
  await make(table.tableId);
  await db.deleteRow({ ...table, rowId: 'r1' });
  const first = await ask(table, ORDER, TTL);
  assert.deepEqual([first.cache, first.numbers], ['miss', '2,3']);
});

test('a revoked grant is never served from an entry', async () => {
  const table = await make();
  assert.equal(await cache(table, ORDER, TTL, null), 'miss');
  assert.equal(await cache(table, ORDER, TTL, null), 'hit');
  await db.updateTable({ ...table, permissions: [] });
  const guest = server.tables(null);
  await refused(guest.listRows({ ...table, queries: ORDER, ttl: 60 }), 401, 'user_unauthorized');
  await db.updateTable({ ...table, rowSecurity: true });
  assert.equal((await ask(table, ORDER, TTL, null)).numbers, '');
});

test('row security: guests and keys do not see each other\'s entries', async () => {
  const table = await make(undefined, 'd', { permissions: [], rowSecurity: true });
  await db.updateRow({ ...table, rowId: 'r2', permissions: ['read("any")'] });
  assert.equal((await ask(table, ORDER, TTL)).numbers, '1,2,3');
  assert.equal((await ask(table, ORDER, TTL, null)).numbers, '2');
  assert.equal((await ask(table, ORDER, TTL)).numbers, '1,2,3');
});

test('a disabled table is absent, cached or not', async () => {
  const table = await make();
  await ask(table, ORDER, TTL, null);
  await db.updateTable({ ...table, enabled: false });
  const guest = server.tables(null);
  await refused(guest.listRows({ ...table, queries: ORDER, ttl: 60 }), 404, 'table_not_found');
});

test('cursor rows are looked up on a hit too', async () => {
  const table = await make();
  const queries = [Q.orderAsc('n'), Q.cursorAfter('r1')];
  await ask(table, queries, TTL);
  await db.deleteRow({ ...table, rowId: 'r1' });
  await refused(db.listRows({ ...table, queries, ttl: 60 }), 400, 'general_cursor_not_found');
});

test('the ttl of the reader decides, not that of the writer', async () => {
  const table = await make();
  const other = [Q.orderDesc('n')];
  assert.equal(await cache(table, other, { ttl: 1 }), 'miss');
  assert.equal(await cache(table, ORDER, { ttl: 86_400 }), 'miss');
  // Ages count in whole seconds: a reader that allows one second misses soon, whatever the writer
  // allowed. Each turn is one request; the clock of the server ends the loop.
  const turns = [];
  while (turns.at(-1) !== 'miss') {
    assert.ok(turns.length < 20_000, 'an entry older than the reader allows was served');
    turns.push(await cache(table, ORDER, { ttl: 1 }));
  }
  // The other entry was written earlier, with ttl 1; a patient reader still takes it.
  assert.equal(await cache(table, other, TTL), 'hit');
});

for (const ttl of [-1, 86_401, 'soon', 1.5]) {
  test(`ttl ${ttl} is refused`, async () => {
    const table = await make();
    const route = listRoute(table.databaseId, table.tableId, [], { ttl });
    const { status, json } = await server.ask('GET', route);
    assert.deepEqual([status, json.type], [400, 'general_argument_invalid']);
  });
}

test('ttl 86400 is taken', async () => {
  assert.equal(await cache(await make(), [], { ttl: 86_400 }), 'miss');
});

test('through the SDK the body is the same with and without ttl', async () => {
  const table = await make();
  const plain = await db.listRows({ ...table, queries: ORDER });
  for (const _ of ['miss', 'hit']) {
    const cached = await db.listRows({ ...table, queries: ORDER, ttl: 60 });
    assert.equal(JSON.stringify(cached), JSON.stringify(plain));
  }
});
