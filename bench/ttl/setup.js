// Builds the benchmark table: `node setup.js [--index] [--rows N]`. A complete table is left alone.

import { pathToFileURL } from 'node:url';
import {
  DATABASE_ID,
  INDEX,
  readConnection,
  readSetup,
  ROWS_PER_CREATE_MAX,
  TABLE_ID,
} from './config.js';
import { CATEGORIES, COLUMN_KEYS, productRow, rowId } from './generator.js';
import { progressBar } from './progress.js';
import { openTables } from './workload.js';

const KINDS = {
  name: { type: 'text' },
  description: { type: 'text' },
  sku: { type: 'text' },
  category: { type: 'enum', elements: CATEGORIES },
  brand: { type: 'text' },
  price: { type: 'double', min: 5, max: 500 },
  stock: { type: 'integer', min: 0, max: 500 },
  rating: { type: 'double', min: 2, max: 5 },
  reviewCount: { type: 'integer', min: 0, max: 8000 },
  manufacturerEmail: { type: 'email' },
  manufacturerUrl: { type: 'url' },
  releasedAt: { type: 'datetime' },
  warehouseIp: { type: 'ip' },
  tags: { type: 'text', array: true },
  inStock: { type: 'boolean' },
};

/** The fifteen inline column definitions, in catalog order. */
export function columnDefinitions() {
  return COLUMN_KEYS.map((key) => {
    const { array = false, ...kind } = KINDS[key];
    return { key, ...kind, required: !array, array };
  });
}

/** The answer of `call`, or null when the server says the thing does not exist. */
async function orNull(call) {
  try {
    return await call;
  } catch (error) {
    if (error.code === 404) return null;
    throw error;
  }
}

function isProduct(row, index) {
  const wanted = productRow(index);
  return (
    row !== null &&
    COLUMN_KEYS.every((key) => JSON.stringify(row[key]) === JSON.stringify(wanted[key]))
  );
}

/**
 * Whether the table holds exactly the wanted catalog. Batches are written in order and each is all
 * or nothing, so the last row stands for all before it.
 */
async function isComplete(tables, { rowCount, indexed }) {
  const address = { databaseId: DATABASE_ID, tableId: TABLE_ID };
  const table = await orNull(tables.getTable(address));
  if (table === null) return false;
  const keys = table.columns.map((column) => column.key);
  if (keys.join() !== COLUMN_KEYS.join()) return false;
  if (table.indexes.some((index) => index.key === INDEX.key) !== indexed) return false;
  const row = (index) => orNull(tables.getRow({ ...address, rowId: rowId(index) }));
  return (
    isProduct(await row(0), 0) &&
    isProduct(await row(rowCount - 1), rowCount - 1) &&
    (await row(rowCount)) === null
  );
}

async function createTable(tables, indexed) {
  await tables.createTable({
    databaseId: DATABASE_ID,
    tableId: TABLE_ID,
    name: 'Products',
    permissions: ['read("any")'],
    rowSecurity: false,
    columns: columnDefinitions(),
    indexes: indexed ? [INDEX] : [],
  });
}

async function fill(tables, rowCount) {
  const bar = progressBar('rows', rowCount);
  for (let start = 0; start < rowCount; start += ROWS_PER_CREATE_MAX) {
    const length = Math.min(ROWS_PER_CREATE_MAX, rowCount - start);
    const rows = Array.from({ length }, (_, offset) => productRow(start + offset));
    await tables.createRows({ databaseId: DATABASE_ID, tableId: TABLE_ID, rows });
    bar.report(start + length);
  }
  bar.finish();
}

/**
 * Makes the table hold the first `rowCount` products, with or without the index.
 * @returns true when it was built, false when it stood complete already
 */
export async function setUp(tables, wanted) {
  if ((await orNull(tables.get({ databaseId: DATABASE_ID }))) === null) {
    await tables.create({ databaseId: DATABASE_ID, name: 'Benchmark' });
  }
  if (await isComplete(tables, wanted)) return false;
  await orNull(tables.deleteTable({ databaseId: DATABASE_ID, tableId: TABLE_ID }));
  await createTable(tables, wanted.indexed);
  await fill(tables, wanted.rowCount);
  return true;
}

async function main() {
  const wanted = readSetup(process.argv.slice(2), process.env);
  const started = performance.now();
  const built = await setUp(openTables(readConnection(process.env)), wanted);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const what = `${wanted.rowCount} rows, ${wanted.indexed ? 'with' : 'without'} index`;
  console.log(built ? `Built ${what}, in ${seconds} s.` : `Complete already: ${what}.`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  main().catch((error) => {
    console.error(`setup: ${error.message}`);
    process.exitCode = 1;
  });
}
