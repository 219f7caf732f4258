import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INDEX } from './config.js';
import { catalog, productRow } from './generator.js';
import { columnDefinitions, setUp } from './setup.js';

const absent = () => {
  throw Object.assign(new Error('not there'), { code: 404 });
};

/** Keeps one table in memory behind the SDK's method names, and counts what setup asks of it. */
class TablesInMemory {
  database = null;
  table = null;
  calls = [];

  async get() {
    return this.database ?? absent();
  }
  async create(database) {
    this.calls.push('create');
    this.database = database;
  }
  async getTable() {
    return this.table ?? absent();
  }
  async deleteTable() {
    this.calls.push('deleteTable');
    if (this.table === null) absent();
    this.table = null;
  }
  async createTable(table) {
    this.calls.push('createTable');
    this.table = { ...table, rows: new Map() };
  }
  async createRows({ rows }) {
    assert.ok(rows.length <= 100);
    this.calls.push(`createRows ${rows.length}`);
    for (const row of rows) this.table.rows.set(row.$id, row);
  }
  async getRow({ rowId }) {
    return this.table.rows.get(rowId) ?? absent();
  }
}

async function built(wanted) {
  const tables = new TablesInMemory();
  assert.equal(await setUp(tables, wanted), true);
  return tables;
}

test('a first setup writes every row in order, in full batches', async () => {
  const tables = await built({ rowCount: 250, indexed: true });
  assert.deepEqual(tables.calls, [
    'create', 'deleteTable', 'createTable', 'createRows 100', 'createRows 100', 'createRows 50',
  ]);
  assert.deepEqual([...tables.table.rows.values()], catalog(250));
  assert.deepEqual(tables.table.indexes, [INDEX]);
  assert.deepEqual(tables.table.permissions, ['read("any")']);
});

test('a complete table is left alone', async () => {
  const tables = await built({ rowCount: 150, indexed: false });
  tables.calls = [];
  assert.equal(await setUp(tables, { rowCount: 150, indexed: false }), false);
  assert.deepEqual(tables.calls, []);
});

for (const [why, spoil, wanted] of [
  ['the last row is missing', ({ rows }) => rows.delete('product-00149')],
  ['a row too many is there', ({ rows }) => rows.set('product-00150', productRow(150))],
  ['the first row is another', ({ rows }) => rows.set('product-00000', productRow(1))],
  ['a column is missing', ({ columns }) => columns.pop()],
  ['the index is wanted now', () => {}, { rowCount: 150, indexed: true }],
  ['fewer rows are wanted now', () => {}, { rowCount: 149, indexed: false }],
]) {
  test(`the table is built again when ${why}`, async () => {
    const first = { rowCount: 150, indexed: false };
    const tables = await built(first);
    spoil(tables.table);
    assert.equal(await setUp(tables, wanted ?? first), true);
    assert.deepEqual([...tables.table.rows.values()], catalog((wanted ?? first).rowCount));
  });
}

test('an error other than 404 ends the setup', async () => {
  const tables = new TablesInMemory();
  tables.get = async () => {
    throw Object.assign(new Error('scope missing'), { code: 401 });
  };
  await assert.rejects(setUp(tables, { rowCount: 1, indexed: false }), /scope missing/);
});

test('columns have the kinds of the published benchmark', () => {
  const kinds = columnDefinitions().map(({ key, type, required }) => `${key} ${type} ${required}`);
  assert.deepEqual(kinds, [
    'name text true', 'description text true', 'sku text true', 'category enum true',
    'brand text true', 'price double true', 'stock integer true', 'rating double true',
    'reviewCount integer true', 'manufacturerEmail email true', 'manufacturerUrl url true',
    'releasedAt datetime true', 'warehouseIp ip true', 'tags text false', 'inStock boolean true',
  ]);
});
