// What a browser keeps: a page that asks again sends what it holds, and the answer is 304.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, poll } from '../node/server.js';
import { Browser } from './browser.js';

const T = { databaseId: 'd', tableId: 't' };
const ROWS = '/tablesdb/d/tables/t/rows';
const LIMIT = encodeURIComponent('{"method":"limit","values":[7]}');

let log = '';
let server;
let browser;
let page;
before(async () => {
  server = await Server.start({ env: { TIDEMARK_LOG_LEVEL: 'info,access=debug' } });
  server.process.stderr.on('data', (text) => (log += text));
  const db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  const columns = [{ key: 'n', type: 'integer', required: false }];
  await db.createTable({ ...T, name: 'T', columns, permissions: ['read("any")'] });
  await db.createRow({ ...T, rowId: 'a', data: { n: 1 } });
  browser = await Browser.start(server.bootstrap);
  page = await browser.page('localhost');
});
after(async () => {
  await browser?.close();
  await server?.close();
});

let marker = 0;
/**
 * Waits until the log has reached this process. The server writes its lines beside its answers, in
 * order, so once the line of a later request is here, those of all earlier ones are.
 */
async function logged() {
  const id = `marker-${++marker}`;
  await server.ask('OPTIONS', '/health/version', { headers: { 'x-request-id': id } });
  await poll('writing the log', () => (log.includes(`request="${id}"`) ? log : null));
}

/** Asks on the page; what it sees, and the statuses that the server logged meanwhile. */
async function ask(route) {
  await logged();
  log = '';
  const seen = await page.evaluate(async (route) => {
    const response = await window.ask(route);
    const { headers, status } = response;
    const body = await response.json();
    return { status, body, etag: headers.get('etag'), cache: headers.get('x-appwrite-cache') };
  }, route);
  await logged();
  const lines = log.split('\n').filter((line) => line.includes('method=GET'));
  return { ...seen, logged: lines.map((line) => Number(/status=(\d+)/.exec(line)[1])) };
}

for (const [what, route] of [
  ['a list', ROWS],
  ['a list from the cache', `${ROWS}?ttl=60`],
  ['a row', `${ROWS}/a`],
]) {
  test(`${what} asked for again is answered 304, and the page sees the same`, async () => {
    const first = await ask(route);
    assert.deepEqual([first.status, first.logged], [200, [200]]);
    const again = await ask(route);
    assert.deepEqual([again.status, again.logged], [200, [304]]);
    assert.deepEqual(again.body, first.body);
  });
}

test('the page reads the tag, and the cache header of an answer that was not sent again', async () => {
  const route = `${ROWS}?ttl=600&queries[0]=${LIMIT}`;
  const first = await ask(route);
  assert.match(first.etag, /^(W\/)?".+"$/);
  assert.equal(first.cache, 'miss');
  const again = await ask(route);
  assert.deepEqual([again.etag, again.cache], [first.etag, 'hit']);
});

test('a page that holds an answer itself may ask whether it still stands', async () => {
  const seen = await page.evaluate(async (route) => {
    const first = await window.ask(route, { cache: 'no-store' });
    const held = { 'If-None-Match': first.headers.get('etag') };
    const again = await window.ask(route, { cache: 'no-store', headers: held });
    const names = ['etag', 'x-appwrite-cache', 'x-tidemark-cache', 'x-request-id'];
    const read = names.filter((name) => again.headers.has(name));
    return { status: again.status, text: await again.text(), read };
  }, `${ROWS}?ttl=60`);
  const read = ['etag', 'x-appwrite-cache', 'x-tidemark-cache', 'x-request-id'];
  assert.deepEqual(seen, { status: 304, text: '', read });
});

test('what was changed is sent anew', async () => {
  const before = await ask(`${ROWS}/a`);
  await server.tables().updateRow({ ...T, rowId: 'a', data: { n: before.body.n + 1 } });
  const after = await ask(`${ROWS}/a`);
  assert.deepEqual(after.logged, [200]);
  assert.equal(after.body.n, before.body.n + 1);
  assert.notEqual(after.etag, before.etag);
});
