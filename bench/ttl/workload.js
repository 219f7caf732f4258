// The published query, and the answer it must give, computed from the generator alone.

import { Client, Query, TablesDB } from 'node-appwrite';
import { DATABASE_ID, PAGE_ROWS, TABLE_ID, TOTAL_CAP } from './config.js';
import { catalog, COLUMN_KEYS } from './generator.js';

export const CATEGORY = 'electronics';
export const RATING_ABOVE = 3.5;

export const QUERIES = [
  Query.equal('category', CATEGORY),
  Query.greaterThan('rating', RATING_ABOVE),
  Query.orderDesc('reviewCount'),
  Query.limit(PAGE_ROWS),
];

/**
 * The official client's table API for one server; `bypass` asks that lists be read again. A server
 * that keeps no list without `ttl` does not know that header and needs none.
 */
export function openTables({ endpoint, projectId, apiKey, bypass = false }) {
  const client = new Client().setEndpoint(endpoint).setProject(projectId).setKey(apiKey);
  if (bypass) client.addHeader('X-Tidemark-Cache', 'bypass');
  return new TablesDB(client);
}

/** The version of the official client in use, as it tells servers. */
export function sdkVersion() {
  return new Client().headers['x-sdk-version'];
}

/** The timed call. `ttl` in seconds; undefined leaves the parameter out. */
export function listProducts(tables, ttl) {
  const address = { databaseId: DATABASE_ID, tableId: TABLE_ID, queries: QUERIES };
  return tables.listRows(ttl === undefined ? address : { ...address, ttl });
}

/** The URL the official client asks for by `listProducts`, for plain HTTP. */
export function listUrl(endpoint, ttl) {
  const url = new URL(`${endpoint}/tablesdb/${DATABASE_ID}/tables/${TABLE_ID}/rows`);
  QUERIES.forEach((query, position) => url.searchParams.append(`queries[${position}]`, query));
  if (ttl !== undefined) url.searchParams.append('ttl', String(ttl));
  return url.toString();
}

/** Headers that make a plain request equal to the official client's in all that decides. */
export function requestHeaders({ projectId, apiKey }) {
  return {
    'x-appwrite-project': projectId,
    'x-appwrite-key': apiKey,
    'x-appwrite-response-format': new Client().headers['X-Appwrite-Response-Format'],
  };
}

/** The right answer over the first `rowCount` products. */
export function expectedAnswer(rowCount) {
  const matches = catalog(rowCount).filter(
    (row) => row.category === CATEGORY && row.rating > RATING_ABOVE,
  );
  // Array sort is stable, so equal review counts keep insertion order, which is `$sequence`.
  matches.sort((left, right) => right.reviewCount - left.reviewCount);
  return { total: Math.min(matches.length, TOTAL_CAP), rows: matches.slice(0, PAGE_ROWS) };
}

/** The first place where `answer` is not the `expected` one, in words; null when there is none. */
export function firstDifference(expected, answer) {
  if (answer.total !== expected.total) {
    return `total: expected ${expected.total}, got ${answer.total}`;
  }
  if (answer.rows?.length !== expected.rows.length) {
    return `rows: expected ${expected.rows.length}, got ${answer.rows?.length}`;
  }
  for (const [position, row] of expected.rows.entries()) {
    for (const key of ['$id', ...COLUMN_KEYS]) {
      const wanted = JSON.stringify(row[key]);
      const got = JSON.stringify(answer.rows[position][key]);
      if (wanted !== got) return `rows[${position}].${key}: expected ${wanted}, got ${got}`;
    }
  }
  return null;
}

/** @throws Error naming the first difference */
export function assertAnswer(expected, answer, who) {
  const difference = firstDifference(expected, answer);
  if (difference !== null) {
    throw new Error(
      `${who} gave a wrong answer, so nothing is measured: ${difference}. ` +
        'Run setup.js with the same ROWS first.',
    );
  }
}
