// The queries through the official SDK, against the real server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { asOf, freshness, undo, validAt, validBetween, versions } from 'tidemark';
import { listRoute, refused, Server } from '../../../tests/sdk/node/server.js';

const PRICES = { databaseId: 'd', tableId: 'prices' };

let server;
let tables;
before(async () => {
  server = await Server.start();
  tables = server.tables();
  await tables.create({ databaseId: 'd', name: 'D' });
  const columns = [{ key: 'eur', type: 'integer', required: false }];
  await tables.createTable({ ...PRICES, name: 'Prices', columns });
});
after(() => server.close());

const read = async (...queries) => (await tables.listRows({ ...PRICES, queries })).rows;
const euros = async (...queries) => (await read(...queries)).map(({ eur }) => eur);

test('every query reads what it says, by every kind of instant', async () => {
  const data = { eur: 5, $validFrom: '2025-01-01T00:00:00Z' };
  await tables.createRow({ ...PRICES, rowId: 'tea', data });
  const [first] = await read(validAt('2025-03-01'));
  assert.equal(first.$validFrom, '2025-01-01T00:00:00.000000+00:00');
  assert.equal(first.$validTo, null);
  assert.equal(first.$systemTo, undefined);
  assert.match(first.$version, /^tea@/);
  const correction = { eur: 4, $validFrom: '2025-01-01', $validTo: '2025-07-01' };
  await tables.updateRow({ ...PRICES, rowId: 'tea', data: correction });

  const march = '2025-03-01T00:00:00Z';
  const micros = BigInt(Date.parse(march)) * 1000n;
  for (const instant of [march, new Date(march), micros, Number(micros)]) {
    assert.deepEqual(await euros(validAt(instant)), [4]);
    assert.deepEqual(await euros(validAt(instant), asOf(first.$systemFrom)), [5]);
  }
  assert.deepEqual(await euros(validBetween('2025-06-01', new Date('2025-08-01'))), [4, 5]);
  assert.deepEqual(await euros(validBetween('2025-08-01')), [5]);
  assert.deepEqual(await euros(validBetween('min', '2025-02-01')), [4]);
  const all = await read(versions());
  assert.deepEqual(all.map(({ eur }) => eur).sort(), [4, 5, 5]);
  assert.equal(all.filter(({ $systemTo }) => $systemTo !== null).length, 1);
  const one = await tables.getRow({ ...PRICES, rowId: 'tea', queries: [validAt(march)] });
  assert.equal(one.eur, 4);
});

test('texts are taken here as the server takes them', async () => {
  const edges = [
    '0000-01-01',
    '9999-12-31T23:59:59.999999Z',
    '2024-02-29t00:00:60,5z',
    '2026-05-01 12:00+0230',
    '2026-05-01T12:00:00.1234567-02',
  ];
  for (const edge of edges) assert.ok(Array.isArray(await read(validAt(edge))), edge);
  // What the server refuses and the calendar of this package cannot know: a time to come.
  await refused(read(asOf('2100-01-01')), 400, 'future_tt');
});

test('freshness is read from real answers', async () => {
  const list = () => server.ask('GET', listRoute('d', 'prices'));
  const seen = [];
  for (let asked = 0; asked < 2; asked += 1) seen.push(freshness((await list()).headers));
  assert.deepEqual(seen.map(({ cache }) => cache), ['miss', 'hit']);
  assert.ok(seen.every(({ isExact, mark }) => isExact && mark > 0));
  const aged = await server.ask('GET', listRoute('d', 'prices', [], { ttl: 60 }));
  const { age, isExact } = freshness(aged.headers);
  assert.equal(typeof age, 'number');
  assert.equal(isExact, true);
  const row = await server.ask('GET', '/tablesdb/d/tables/prices/rows/tea');
  const { mark } = freshness(row.headers);
  assert.deepEqual(await euros(asOf(mark)), [5]);
  assert.equal(freshness((await server.ask('GET', '/health/version')).headers), null);
});

test('freshness says what was erased since', async () => {
  await tables.createRow({ ...PRICES, rowId: 'gone', data: { eur: 1 } });
  const row = '/tablesdb/d/tables/prices/rows/tea';
  const { mark } = freshness((await server.ask('GET', row)).headers);
  const then = `?queries[0]=${encodeURIComponent(asOf(mark))}`;
  const read = async (path) => freshness((await server.ask('GET', path)).headers);
  assert.equal((await read(row + then)).erased, false);
  const ops = [{ op: 'erase', tableId: 'prices', rowId: 'gone' }];
  const body = { ops };
  const erased = await server.ask('POST', '/tidemark/databases/d/transactions', { body });
  assert.equal(erased.status, 201);
  assert.equal((await read(row + then)).erased, true);
  assert.equal((await read(listRoute('d', 'prices', [asOf(mark)]))).erased, true);
  assert.equal((await read(row)).erased, false);
  // Of a row that is not there it says that alone.
  const missing = await read(`/tablesdb/d/tables/prices/rows/gone${then}`);
  assert.deepEqual(missing, { cache: null, mark: null, age: null, isExact: true, erased: true });
});

test('commits are undone by their metadata', async () => {
  const { client } = tables;
  const row = { ...PRICES, rowId: 'milk' };
  await tables.createRow({ ...row, data: { eur: 1 } });
  const seen = await server.ask('GET', '/tablesdb/d/tables/prices/rows/milk');
  const { mark } = freshness(seen.headers);
  const headers = { 'x-tidemark-meta': '{"run":7}' };
  const change = { body: { data: { eur: 9 } }, headers };
  await server.ask('PATCH', '/tablesdb/d/tables/prices/rows/milk', change);
  const which = { databaseId: 'd', after: BigInt(mark), meta: { run: 7 } };
  const tried = await undo(client, { ...which, dryRun: true });
  assert.deepEqual([tried.$systemFrom, tried.commits], [null, 1]);
  assert.equal((await tables.getRow(row)).eur, 9);
  const once = { ...which, commitMeta: { why: 'Unsinn \u2603' }, idempotencyKey: 'u1' };
  const done = await undo(client, once);
  assert.deepEqual(done.rows, tried.rows);
  const [{ tableId, rowId, changes }] = done.rows;
  assert.deepEqual([tableId, rowId, { ...changes[0].data }], ['prices', 'milk', { eur: 1 }]);
  assert.equal((await tables.getRow(row)).eur, 1);
  assert.deepEqual(await undo(client, once), done);
  const body = { kind: 'tx', asOf: done.$systemFrom };
  const { json } = await server.ask('POST', '/tidemark/databases/d/reads', { body });
  assert.deepEqual(json.rows.meta, { why: 'Unsinn \u2603' });
  for (const until of [new Date(), Date.now() * 1000, new Date().toISOString()]) {
    await refused(undo(client, { ...which, until }), 409, 'row_update_conflict');
  }
  assert.throws(() => undo(client, { ...which, after: '2026' }), /could be a year/);
  assert.throws(() => undo(client, { ...which, until: Date.now() }), /new Date/);
});
