// Time through an SDK that knows nothing of it: ranges in row data, and queries at other times,
// sent as the JSON texts that every query is.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Query as Q } from 'node-appwrite';
import { refused, Server } from './server.js';

const T = { databaseId: 'd', tableId: 'prices' };
const at = (method, ...values) => JSON.stringify({ method, values });

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  const columns = [{ key: 'eur', type: 'integer', required: false }];
  await db.createTable({ ...T, name: 'Prices', columns });
});
after(() => server.stop());

const prices = async (...queries) =>
  (await db.listRows({ ...T, queries })).rows.map(({ $id, eur }) => [$id, eur]);

test('a price of last year is corrected without losing what was believed', async () => {
  const from = '2025-01-01T00:00:00.000000+00:00';
  const to = '2025-07-01T00:00:00.000000+00:00';
  await db.createRow({ ...T, rowId: 'p', data: { eur: 5, $validFrom: from } });
  const [first] = (await db.listRows({ ...T, queries: [at('validAt', '2025-03-01')] })).rows;
  assert.equal(first.$validFrom, from);
  assert.equal(first.$validTo, null);
  const known = first.$systemFrom;
  await db.updateRow({ ...T, rowId: 'p', data: { eur: 4, $validFrom: from, $validTo: to } });
  assert.deepEqual(await prices(), [['p', 5]]);
  assert.deepEqual(await prices(at('validAt', '2025-03-01')), [['p', 4]]);
  assert.deepEqual(await prices(at('validAt', '2025-03-01'), at('asOf', known)), [['p', 5]]);
  assert.deepEqual(await prices(at('validBetween', '2025-06-01', '2025-08-01')), [
    ['p', 4],
    ['p', 5],
  ]);
  assert.deepEqual(await prices(at('versions'), Q.equal('eur', 4)), [['p', 4]]);
  const { total } = await db.listRows({ ...T, queries: [at('versions')] });
  assert.equal(total, 3);
  const then = await db.getRow({ ...T, rowId: 'p', queries: [at('validAt', '2025-03-01')] });
  assert.equal(then.eur, 4);
});

test('a scheduled row is in no list before its instant', async () => {
  await db.createRow({ ...T, rowId: 'q', data: { eur: 9, $validFrom: '2100-01-01T00:00:00Z' } });
  assert.deepEqual(await prices(Q.equal('$id', 'q')), []);
  assert.deepEqual(await prices(Q.equal('$id', 'q'), at('validAt', '2100-01-01')), [['q', 9]]);
  await db.deleteRow({ ...T, rowId: 'q' });
  assert.deepEqual(await prices(Q.equal('$id', 'q'), at('validAt', '2100-01-01')), []);
});

test('versions are paged by their names', async () => {
  const seen = [];
  let queries = [at('versions'), Q.limit(2)];
  for (;;) {
    const { rows } = await db.listRows({ ...T, queries });
    if (rows.length === 0) break;
    seen.push(...rows.map((row) => row.$version));
    queries = [at('versions'), Q.limit(2), Q.cursorAfter(seen.at(-1))];
  }
  const all = (await db.listRows({ ...T, queries: [at('versions')] })).rows;
  assert.deepEqual(seen, all.map((row) => row.$version));
  assert.equal(new Set(seen).size, seen.length);
});

test('times that cannot be are refused', async () => {
  const row = (data) => db.createRow({ ...T, rowId: 'x', data });
  const period = { $validFrom: '2025-01-01', $validTo: '2025-01-01' };
  await refused(row({ eur: 1, ...period }), 400, 'invalid_range');
  await refused(db.listRows({ ...T, queries: [at('asOf', '2100-01-01')] }), 400, 'future_tt');
  const both = [at('validAt', 1), at('validBetween', 1, 2)];
  await refused(db.listRows({ ...T, queries: both }), 400, 'general_query_invalid');
});
