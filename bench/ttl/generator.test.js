import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { catalog, COLUMN_KEYS, draws, productRow } from './generator.js';

const page = readFileSync(new URL('./CATALOG.md', import.meta.url), 'utf8');

function fnv1a(text) {
  const mask = 0xffff_ffff_ffff_ffffn;
  let hash = 0xcbf2_9ce4_8422_2325n;
  for (const byte of Buffer.from(text)) hash = ((hash ^ BigInt(byte)) * 0x100_0000_01b3n) & mask;
  return hash.toString(16).padStart(16, '0');
}

function golden(rowCount) {
  const line = page.split('\n').find((line) => line.startsWith(`| ${rowCount} | `));
  const [, , bytes, sha256, fnv] = line.split('|').map((cell) => cell.trim().replaceAll('`', ''));
  return { bytes: Number(bytes), sha256, fnv };
}

test('the first rows have the digests of CATALOG.md', () => {
  for (const rowCount of [100, 10_000]) {
    const text = JSON.stringify(catalog(rowCount));
    const sha256 = createHash('sha256').update(text).digest('hex');
    const { fnv, ...wanted } = golden(rowCount);
    assert.deepEqual({ bytes: Buffer.byteLength(text), sha256 }, wanted);
    if (fnv !== '') assert.equal(fnv1a(text), fnv);
  }
});

test('row 0 is the one CATALOG.md shows', () => {
  const shown = /```json\n(.*)\n```/.exec(page)[1];
  assert.equal(JSON.stringify(productRow(0)), shown);
});

test('draws follow the mulberry32 sequence', () => {
  // Computed in Python from the text of CATALOG.md.
  const { next } = draws(0);
  assert.deepEqual([next(), next(), next()], [2347010974, 1973779238, 1061036011]);
});

test('rows hold the fifteen columns within their limits', () => {
  const rows = catalog(2_000);
  const within = (value, low, high) => value >= low && value <= high;
  for (const row of rows) {
    assert.deepEqual(Object.keys(row), ['$id', ...COLUMN_KEYS]);
    assert.ok(within(row.price, 5, 500) && within(row.rating, 2, 5), row.$id);
    assert.ok(within(row.stock, 0, 500) && within(row.reviewCount, 0, 8000), row.$id);
    assert.ok(within(row.releasedAt, '2022-01-02T00:00:00', '2026-01-01T00:00:00'), row.$id);
    assert.equal(new Set(row.tags).size, row.tags.length);
    assert.equal(row.inStock, row.stock > 0);
  }
  assert.equal(new Set(rows.map((row) => row.sku)).size, rows.length);
});
