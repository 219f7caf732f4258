// What every route shares: statuses, headers, error shape, projects; and what is not built yet.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Query } from 'node-appwrite';
import { Server } from './server.js';

const T = { databaseId: 'd', tableId: 't' };
const ROWS = '/tablesdb/d/tables/t/rows';

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  const columns = [{ key: 'n', type: 'integer', required: false }];
  await db.createTable({ ...T, name: 'T', columns, permissions: ['read("any")'] });
  await db.createRow({ ...T, rowId: 'r', data: { n: 1 } });
});
after(() => server.close());

function assertError({ status, headers, json, text }, code, type) {
  assert.equal(status, code, text);
  assert.equal(headers.get('content-type'), 'application/json; charset=UTF-8');
  assert.deepEqual(Object.keys(json).sort(), ['code', 'message', 'type', 'version'], text);
  assert.deepEqual([json.code, json.type], [code, type]);
  assert.equal(typeof json.message, 'string');
  assert.equal(typeof json.version, 'string');
}

describe('answers', () => {
  test('success is JSON with its length, and no warning', async () => {
    const { status, headers } = await server.ask('GET', ROWS);
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/json; charset=UTF-8');
    assert.equal(headers.get('x-appwrite-warning'), null);
  });

  test('statuses of create, read and delete', async () => {
    const status = async (...args) => (await server.ask(...args)).status;
    const body = (content) => ({ body: content });
    assert.equal(await status('POST', '/tablesdb', body({ databaseId: 's', name: 'S' })), 201);
    assert.equal(await status('GET', '/tablesdb/s'), 200);
    assert.equal(await status('PUT', '/tablesdb/s', body({ name: 'S2' })), 200);
    const table = body({ tableId: 't', name: 'T', columns: [{ key: 'n', type: 'integer' }] });
    assert.equal(await status('POST', '/tablesdb/s/tables', table), 201);
    const rows = '/tablesdb/s/tables/t/rows';
    assert.equal(await status('POST', rows, body({ rowId: 'r', data: { n: 1 } })), 201);
    assert.equal(await status('POST', rows, body({ rows: [{ n: 1 }] })), 201);
    assert.equal(await status('PATCH', `${rows}/r`, body({ data: { n: 2 } })), 200);
    assert.equal(await status('DELETE', `${rows}/r`, body({})), 204);
    assert.equal(await status('DELETE', '/tablesdb/s/tables/t', body({})), 204);
    assert.equal(await status('DELETE', '/tablesdb/s', body({})), 204);
  });

  test('204 carries a content type that is not JSON, and no body', async () => {
    await db.createRow({ ...T, rowId: 'brief', data: { n: 1 } });
    const { status, headers, text } = await server.ask('DELETE', `${ROWS}/brief`, { body: {} });
    assert.deepEqual([status, text], [204, '']);
    assert.match(headers.get('content-type'), /^text\/plain/);
  });

  test('HEAD answers as GET does, without a body', async () => {
    const head = await server.ask('HEAD', ROWS);
    assert.deepEqual([head.status, head.text], [200, '']);
  });

  test('ping, health and versions', async () => {
    const ping = await server.ask('GET', '/ping', { as: null });
    assert.deepEqual([ping.status, ping.text], [200, 'Pong!']);
    assert.match(ping.headers.get('content-type'), /^text\/plain/);
    const version = await server.ask('GET', '/health/version', { as: null });
    assert.deepEqual(version.json, { version: '1.9.6' });
    const health = await server.ask('GET', '/health');
    assert.deepEqual([health.json.name, health.json.status], ['http', 'pass']);
    assert.ok(Number.isInteger(health.json.ping));
    const store = await server.ask('GET', '/health/db');
    assert.equal(store.json.total, store.json.statuses.length);
    assert.equal(store.json.statuses[0].status, 'pass');
    const closed = await server.ask('GET', '/health', { as: null });
    assertError(closed, 401, 'general_unauthorized_scope');
  });

  test('the SDK\'s own ping', async () => {
    assert.equal((await server.client().ping()).message, 'Pong!');
  });
});

describe('projects', () => {
  const ask = (project, route, options = {}) =>
    server.ask('GET', route, { headers: { 'x-appwrite-project': project }, ...options });

  test('an unknown project is 404 everywhere', async () => {
    assertError(await ask('nowhere', ROWS), 404, 'project_not_found');
    assertError(await ask('nowhere', '/tablesdb'), 404, 'project_not_found');
    assertError(await ask('nowhere', '/ping'), 404, 'project_not_found');
  });

  test('no project: 401', async () => {
    const { endpoint, apiKey } = server.bootstrap;
    const response = await fetch(endpoint + ROWS, { headers: { 'x-appwrite-key': apiKey } });
    assert.equal(response.status, 401);
    assert.equal((await response.json()).type, 'general_access_forbidden');
  });

  test('the project of the query goes before the header', async () => {
    const { projectId } = server.bootstrap;
    assert.equal((await ask('nowhere', `${ROWS}?project=${projectId}`)).status, 200);
    assertError(await ask(projectId, `${ROWS}?project=nowhere`), 404, 'project_not_found');
  });
});

describe('requests', () => {
  test('unknown routes are 404 in the error shape', async () => {
    for (const route of ['/nowhere', '/tablesdb/d/nowhere', '/tablesdb/d/tables/t/rows/r/x/y']) {
      assertError(await server.ask('GET', route), 404, 'general_route_not_found');
    }
  });

  test('a body that is no JSON object is refused', async () => {
    for (const body of ['{', 'name', '[1]', '"text"', '\u0000']) {
      const answer = await server.ask('POST', '/tablesdb', { body });
      assert.equal(answer.status, 400, `${body}: ${answer.text}`);
      assert.match(answer.json.type, /^general_(argument_invalid|bad_request)$/);
    }
  });

  test('no body means no parameters', async () => {
    const answer = await server.ask('POST', '/tablesdb');
    assertError(answer, 400, 'general_argument_invalid');
  });

  test('unknown parameters are ignored', async () => {
    const answer = await server.ask('GET', `${ROWS}?colour=red&limit=1`);
    assert.equal(answer.json.total, 1);
    const body = { rowId: 'extra', data: { n: 1 }, colour: 'red' };
    assert.equal((await server.ask('POST', ROWS, { body })).status, 201);
    await db.deleteRow({ ...T, rowId: 'extra' });
  });

  test('booleans of a query are read in four spellings', async () => {
    for (const [text, total] of [['true', 1], ['1', 1], ['false', 0], ['0', 0]]) {
      assert.equal((await server.ask('GET', `${ROWS}?total=${text}`)).json.total, total, text);
    }
    const answer = await server.ask('GET', `${ROWS}?total=maybe`);
    assertError(answer, 400, 'general_argument_invalid');
  });

  test('a GET with an empty content type is served', async () => {
    assert.equal((await server.ask('GET', ROWS, { headers: { 'content-type': '' } })).status, 200);
  });

  test('ids in the path may be escaped; nonsense there is a 4xx', async () => {
    assert.equal((await server.ask('GET', '/tablesdb/%64/tables/t/rows/r')).status, 200);
    for (const id of ['%00', '%ff', 'a%20b', '..%2f..', '%F0%9F%98%80', 'x'.repeat(300)]) {
      const { status, json } = await server.ask('GET', `${ROWS}/${id}`);
      assert.ok(status >= 400 && status < 500, `${id}: ${status}`);
      assert.equal(json.code, status);
    }
  });
});

describe('browsers', () => {
  const origin = (value, extra = {}) => ({ headers: { origin: value }, as: null, ...extra });

  test('OPTIONS is 204 and names the allowed headers and methods', async () => {
    const { status, headers } = await server.ask('OPTIONS', ROWS, origin('http://localhost:3000'));
    assert.equal(status, 204);
    assert.equal(headers.get('access-control-allow-origin'), 'http://localhost:3000');
    assert.equal(headers.get('access-control-allow-credentials'), 'true');
    const allowed = headers.get('access-control-allow-headers').toLowerCase();
    for (const name of ['x-appwrite-project', 'x-appwrite-session', 'content-type']) {
      assert.ok(allowed.includes(name), name);
    }
    assert.match(headers.get('access-control-allow-methods'), /PATCH/);
  });

  test('an allowed origin is echoed, with the cache header exposed', async () => {
    const { headers } = await server.ask('GET', ROWS, origin('http://localhost:3000'));
    assert.equal(headers.get('access-control-allow-origin'), 'http://localhost:3000');
    assert.match(headers.get('access-control-expose-headers'), /X-Appwrite-Cache/i);
  });

  test('a strange origin is refused without a key', async () => {
    const answer = await server.ask('GET', ROWS, origin('https://evil.example'));
    assertError(answer, 403, 'general_unknown_origin');
    const { status } = await server.ask('GET', ROWS, { headers: { origin: 'https://evil.example' } });
    assert.equal(status, 200);
  });
});

describe('what is not built yet is refused in the error shape', () => {
  const row = { ...T, rowId: 'r' };
  for (const [what, call] of Object.entries({
    'createPointColumn': () => db.createPointColumn({ ...T, key: 'k', required: false }),
    'a spatial index': () => db.createIndex({ ...T, key: 'i', type: 'spatial', columns: ['n'] }),
    'databases by chance': () => db.list({ queries: [Query.orderRandom()] }),
    'a row in an unknown transaction': () => db.createRow({ ...T, rowId: 'staged', data: { n: 1 }, transactionId: 'tx' }),
  })) {
    test(what, async () => {
      const error = await call().then(() => null, (error) => error);
      assert.ok(error, `${what} was answered`);
      assert.ok((error.code >= 400 && error.code < 500) || error.code === 501, `${error.code}`);
      assert.ok(error.type, 'the error has no type');
      assert.equal((await db.getRow(row)).n, 1, 'the row changed');
    });
  }

  test('other services', async () => {
    for (const route of ['/account', '/users', '/teams', '/storage/buckets', '/locale']) {
      const { status, json } = await server.ask('GET', route);
      assert.ok((status >= 400 && status < 500) || status === 501, `${route}: ${status}`);
      assert.equal(json.code, status);
      assert.ok(json.type);
    }
  });

  test('the table is untouched by all of it', async () => {
    const { columns, indexes } = await db.getTable(T);
    assert.deepEqual([columns.map((one) => one.key), indexes], [['n'], []]);
    assert.equal((await db.listRows(T)).total, 1);
  });
});
