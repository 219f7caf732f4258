// Paging by cursors both ways, select, and totals up to the cap.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Query as Q } from 'node-appwrite';
import { refused, Server } from './server.js';

const SYSTEM_KEYS = [
  '$createdAt', '$databaseId', '$id', '$permissions', '$sequence', '$tableId', '$updatedAt',
];

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
});
after(() => server.close());

const ids = (list) => list.rows.map((row) => row.$id);

describe('cursors', () => {
  const T = { databaseId: 'd', tableId: 'pages' };
  const list = (queries) => db.listRows({ ...T, queries });
  const ROW_COUNT = 23;

  before(async () => {
    const columns = [
      { key: 'rank', type: 'integer', required: true },
      { key: 'group', type: 'varchar', size: 9, required: true },
    ];
    await db.createTable({ ...T, name: 'Pages', columns });
    // Ranks repeat, so that pages end inside runs of equal ranks.
    const rows = Array.from({ length: ROW_COUNT }, (_, n) => ({
      $id: `r${String(n).padStart(2, '0')}`,
      rank: (n * 7) % 5,
      group: n % 3 === 0 ? 'a' : 'b',
    }));
    await db.createRows({ ...T, rows });
  });

  /** Every id, walking in pages of `size` by `step`, which is a cursor query of the SDK. */
  async function walk(queries, size, step, start) {
    const seen = [];
    let cursor = start;
    for (let page = 0; page <= ROW_COUNT; page += 1) {
      const at = cursor === null ? [] : [step(cursor)];
      const got = ids(await list([...queries, Q.limit(size), ...at]));
      if (got.length === 0) return seen;
      if (step === Q.cursorAfter) seen.push(...got);
      else seen.unshift(...got);
      cursor = step === Q.cursorAfter ? got.at(-1) : got[0];
    }
    throw new Error('the walk does not end');
  }

  for (const [name, queries] of Object.entries({
    'the default order': [],
    'rank ascending': [Q.orderAsc('rank')],
    'rank descending': [Q.orderDesc('rank')],
    'two orders': [Q.orderAsc('group'), Q.orderDesc('rank')],
    'a filter and an order': [Q.equal('group', 'b'), Q.orderDesc('rank')],
    'ids descending': [Q.orderDesc('$id')],
    'creation descending': [Q.orderDesc('$createdAt')],
  })) {
    for (const size of [1, 4, 25]) {
      test(`${name}, pages of ${size}: both directions see every row once`, async () => {
        const whole = ids(await list([...queries, Q.limit(100)]));
        assert.equal(new Set(whole).size, whole.length);
        assert.ok(whole.length >= 15);
        assert.deepEqual(await walk(queries, size, Q.cursorAfter, null), whole);
        const backwards = await walk(queries, size, Q.cursorBefore, whole.at(-1));
        assert.deepEqual(backwards, whole.slice(0, -1));
      });
    }
  }

  test('cursorBefore gives the nearest rows, in the order asked for', async () => {
    const { rows, total } = await list([Q.cursorBefore('r10'), Q.limit(3)]);
    assert.deepEqual(rows.map((row) => row.$id), ['r07', 'r08', 'r09']);
    assert.equal(total, ROW_COUNT);
  });

  test('the total ignores cursor, limit and offset', async () => {
    const { total } = await list([Q.equal('group', 'a'), Q.cursorAfter('r10'), Q.limit(1)]);
    assert.equal(total, 8);
  });

  test('the first cursor counts', async () => {
    const page = await list([Q.cursorAfter('r01'), Q.cursorAfter('r20'), Q.limit(1)]);
    assert.deepEqual(ids(page), ['r02']);
  });

  test('a cursor row need not match the filter', async () => {
    const page = await list([Q.equal('group', 'a'), Q.cursorAfter('r10'), Q.limit(2)]);
    assert.deepEqual(ids(page), ['r12', 'r15']);
  });

  test('the default page has 25 rows', async () => {
    const T2 = { databaseId: 'd', tableId: 'many' };
    await db.createTable({ ...T2, name: 'M', columns: [{ key: 'n', type: 'integer' }] });
    const rows = Array.from({ length: 30 }, (_, n) => ({ $id: `m${n}`, n }));
    await db.createRows({ ...T2, rows });
    const page = await db.listRows(T2);
    assert.deepEqual([page.rows.length, page.total], [25, 30]);
  });
});

describe('select', () => {
  const T = { databaseId: 'd', tableId: 'select' };
  before(async () => {
    const columns = ['one', 'two', 'three'].map((key) => ({ key, type: 'integer' }));
    await db.createTable({ ...T, name: 'S', columns });
    await db.createRow({ ...T, rowId: 'r', data: { one: 1, two: 2 } });
  });
  const userKeys = (row) =>
    Object.keys(row)
      .filter((key) => !key.startsWith('$'))
      .sort();
  const row = async (select) => (await db.listRows({ ...T, queries: [Q.select(select)] })).rows[0];

  for (const [select, wanted] of [
    [['one'], ['one']],
    [['two', 'three'], ['three', 'two']],
    [['$id', 'two'], ['two']],
    [['$id'], []],
    [['$createdAt', '$permissions', 'one'], ['one']],
    [['*'], ['one', 'three', 'two']],
  ]) {
    test(`${select.join(',')} leaves the other columns out`, async () => {
      const got = await row(select);
      assert.deepEqual(userKeys(got), wanted);
      assert.deepEqual([got.$databaseId, got.$tableId], ['d', 'select']);
      for (const key of select.filter((key) => key.startsWith('$'))) assert.ok(key in got, key);
    });
  }

  test('a selected NULL stays null', async () => {
    assert.equal((await row(['three'])).three, null);
  });

  test('without select every system key is there', async () => {
    const got = (await db.listRows(T)).rows[0];
    assert.deepEqual(Object.keys(got).filter((key) => key.startsWith('$')).sort(), SYSTEM_KEYS);
  });

  test('a filter and an order may use what is not selected', async () => {
    const queries = [Q.equal('two', 2), Q.orderDesc('one'), Q.select(['three'])];
    const { rows } = await db.listRows({ ...T, queries });
    assert.deepEqual(rows.map(userKeys), [['three']]);
  });

  test('getRow selects too', async () => {
    const got = await db.getRow({ ...T, rowId: 'r', queries: [Q.select(['two'])] });
    assert.deepEqual([userKeys(got), got.two, got.$tableId], [['two'], 2, 'select']);
  });

  test('an unknown column is refused', () => refused(row(['colour']), 400, 'general_query_invalid'));
});

describe('totals', () => {
  const T = { databaseId: 'd', tableId: 'totals' };
  /** The default cap of the server (wire contract: totals are counted up to 5000). */
  const CAP = 5000;
  const ROW_COUNT = CAP + 100;
  before(async () => {
    await db.createTable({ ...T, name: 'N', columns: [{ key: 'n', type: 'integer' }] });
    for (let start = 0; start < ROW_COUNT; start += 100) {
      const rows = Array.from({ length: 100 }, (_, place) => ({ n: start + place }));
      await db.createRows({ ...T, rows });
    }
  });
  const total = async (queries, extra = {}) =>
    (await db.listRows({ ...T, queries: [...queries, Q.limit(1)], ...extra })).total;

  for (const [what, queries, extra, wanted] of [
    ['all rows, counted up to the cap', [], {}, CAP],
    ['one below the cap', [Q.lessThan('n', CAP - 1)], {}, CAP - 1],
    ['at the cap', [Q.lessThan('n', CAP)], {}, CAP],
    ['one above the cap', [Q.lessThanEqual('n', CAP)], {}, CAP],
    ['few', [Q.lessThan('n', 7)], { total: true }, 7],
    ['none', [Q.lessThan('n', 0)], {}, 0],
    ['not counted', [], { total: false }, 0],
  ]) {
    test(`${what}: ${wanted}`, async () => assert.equal(await total(queries, extra), wanted));
  }

  test('total=false still gives the rows', async () => {
    const page = await db.listRows({ ...T, queries: [Q.limit(3)], total: false });
    assert.deepEqual(page.rows.map((row) => row.n), [0, 1, 2]);
  });

  test('a page may hold 5000 rows, and an offset may pass the cap', async () => {
    const page = await db.listRows({ ...T, queries: [Q.limit(5000)] });
    assert.deepEqual([page.rows.length, page.rows.at(-1).n], [5000, 4999]);
    const rest = await db.listRows({ ...T, queries: [Q.offset(5050), Q.limit(100)] });
    assert.deepEqual([rest.rows.length, rest.rows[0].n], [50, 5050]);
  });
});
