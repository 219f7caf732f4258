// What a page may do: origins, preflights, guest calls, errors, headers, repeated reads.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Server, poll } from '../node/server.js';
import { Browser } from './browser.js';

const T = { databaseId: 'd', tableId: 't' };
const ROWS = '/tablesdb/d/tables/t/rows';

let log = '';
let server;
let browser;
let page;
before(async () => {
  const env = { TIDEMARK_CORS_ORIGIN: '*.shop.example', TIDEMARK_LOG_LEVEL: 'info,access=debug' };
  server = await Server.start({ env });
  server.process.stderr.on('data', (text) => (log += text));
  const db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  const columns = [
    { key: 'name', type: 'varchar', size: 64, required: false },
    { key: 'n', type: 'integer', required: false },
  ];
  const permissions = ['read("any")', 'create("any")', 'update("any")', 'delete("any")'];
  await db.createTable({ ...T, name: 'T', columns, permissions });
  await db.createTable({ databaseId: 'd', tableId: 'closed', name: 'C', columns });
  await db.createRows({ ...T, rows: [{ $id: 'a', name: 'é "x"', n: 1 }, { $id: 'b', n: 2 }] });
  browser = await Browser.start(server.bootstrap);
  page = await browser.page('www.shop.example');
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** The lines of the server's log about requests by this method. */
const logged = (method) => log.split('\n').filter((line) => line.includes(`method=${method}`));

describe('origins', () => {
  for (const host of ['www.shop.example', 'localhost', '127.0.0.1']) {
    test(`a page of ${host} reads`, async () => {
      const own = await browser.page(host);
      const { total, rows } = await own.evaluate((table) => tables.listRows(table), T);
      assert.deepEqual([total, rows.map((row) => row.$id)], [2, ['a', 'b']]);
    });
  }

  for (const host of ['evil.example', 'shop.example.evil.example']) {
    test(`a page of ${host} gets nothing`, async () => {
      const own = await browser.page(host);
      const { answer, error } = await own.evaluate((table) => outcome(tables.listRows(table)), T);
      assert.deepEqual([answer, error.name], [undefined, 'TypeError']);
      const written = await own.evaluate((table) => {
        const row = { ...table, rowId: 'evil', data: { name: 'evil' } };
        return outcome(tables.createRow(row));
      }, T);
      assert.equal(written.error.name, 'TypeError');
      // A form needs no permission of the browser; the server itself has to refuse it.
      await own.evaluate(([endpoint, route, project]) => {
        const body = JSON.stringify({ rowId: 'evil', data: { name: 'evil' } });
        const url = `${endpoint}${route}?project=${project}`;
        return fetch(url, { method: 'POST', mode: 'no-cors', body }).then(() => null);
      }, [server.bootstrap.endpoint, ROWS, server.bootstrap.projectId]);
      assert.equal((await server.ask('GET', `${ROWS}/evil`)).status, 404);
    });
  }
});

/** The same, once at least `count` are written: the server logs a request after its answer. */
const loggedAtLeast = (method, count) =>
  poll('writing the log', () => (logged(method).length >= count ? logged(method).length : null));

test('a call is announced by a preflight, and not again for as long as that is kept', async () => {
  const own = await browser.page('api.shop.example');
  const before = logged('OPTIONS').length;
  const count = (times) =>
    own.evaluate(async ([route, times]) => {
      for (let n = 0; n < times; n += 1) await (await ask(route)).text();
    }, [ROWS, times]);
  await count(1);
  assert.equal(await loggedAtLeast('OPTIONS', before + 1), before + 1);
  // Of these no preflight may be logged: the requests themselves show that the log has come so far.
  const calls = logged('GET').length;
  await count(3);
  await loggedAtLeast('GET', calls + 3);
  assert.equal(logged('OPTIONS').length, before + 1);
});

describe('a guest on a page', () => {
  test('creates, reads, changes and deletes a row', async () => {
    const seen = await page.evaluate(async (table) => {
      const row = { ...table, rowId: 'life' };
      const made = await tables.createRow({ ...row, data: { name: '😀', n: 5 } });
      const read = await tables.getRow(row);
      const changed = await tables.updateRow({ ...row, data: { n: 6 } });
      const put = await tables.upsertRow({ ...row, data: { name: 'z' } });
      await tables.deleteRow(row);
      const gone = await outcome(tables.getRow(row));
      return { made, read, changed, put, gone };
    }, T);
    assert.deepEqual(seen.made, seen.read);
    assert.deepEqual([seen.made.name, seen.changed.n, seen.put.name, seen.put.n], ['😀', 6, 'z', 6]);
    assert.equal(seen.gone.error.type, 'row_not_found');
  });

  test('queries', async () => {
    const ids = await page.evaluate(async (table) => {
      const { Query } = window.Appwrite;
      const queries = [Query.greaterThan('n', 1), Query.orderDesc('n'), Query.limit(1)];
      const list = await tables.listRows({ ...table, queries, ttl: 0 });
      return list.rows.map((row) => row.$id);
    }, T);
    assert.deepEqual(ids, ['b']);
  });

  test('reads by the older routes', async () => {
    const name = await page.evaluate(async () => {
      const list = await databases.listDocuments({ databaseId: 'd', collectionId: 't' });
      return list.documents[0].name;
    });
    assert.equal(name, 'é "x"');
  });

  test('keeps integers that doubles cannot hold', async () => {
    const kept = await page.evaluate(async (table) => {
      const row = { ...table, rowId: 'big' };
      const big = 9007199254740993n;
      await tables.createRow({ ...row, data: { n: big } });
      const { n } = await tables.getRow(row);
      await tables.deleteRow(row);
      return [typeof n, String(n)];
    }, T);
    assert.deepEqual(kept, ['bigint', '9007199254740993']);
  });

  for (const [what, call, code, type] of [
    ['an absent row', (table) => outcome(tables.getRow({ ...table, rowId: 'none' })), 404, 'row_not_found'],
    ['a closed table', () => outcome(tables.listRows({ databaseId: 'd', tableId: 'closed' })), 401, 'user_unauthorized'],
    ['a wrong value', (table) => outcome(tables.createRow({ ...table, rowId: 'x', data: { n: 'x' } })), 400, 'row_invalid_structure'],
    ['a wrong query', (table) => outcome(tables.listRows({ ...table, queries: ['x'] })), 400, 'general_query_invalid'],
    ['an absent database', () => outcome(tables.listRows({ databaseId: 'none', tableId: 't' })), 404, 'database_not_found'],
  ]) {
    test(`reads why ${what} is refused`, async () => {
      const { error } = await page.evaluate(call, T);
      assert.deepEqual([error.name, error.code, error.type], ['AppwriteException', code, type]);
      assert.notEqual(error.message, '');
    });
  }
});

test('a page reads whether a list came from the cache', async () => {
  const seen = await page.evaluate(async (route) => {
    const seen = [];
    for (let n = 0; n < 2; n += 1) {
      seen.push((await ask(`${route}?ttl=60&total=false`)).headers.get('x-appwrite-cache'));
    }
    return seen;
  }, ROWS);
  assert.deepEqual(seen, ['miss', 'hit']);
});

test('a page reads the headers that are exposed, and no others', async () => {
  const names = ['x-request-id', 'date'];
  const seen = await page.evaluate(async ([route, names]) => {
    const { headers } = await ask(route);
    return names.map((name) => headers.has(name));
  }, [ROWS, names]);
  assert.deepEqual(seen, [true, false]);
});

describe('realtime', () => {
  const ways = {
    'the client': () => tables.client.subscribe('rows', () => {}),
    Realtime: () => new window.Appwrite.Realtime(tables.client).subscribe('rows', () => {}),
  };
  for (const [way, subscribe] of Object.entries(ways)) {
    for (const host of ['www.shop.example', 'evil.example']) {
      test(`through ${way} is not tried again by a page of ${host}`, async () => {
        const own = await browser.page(host);
        await own.clock.install();
        await own.evaluate(() => {
          const Real = WebSocket;
          window.opened = 0;
          window.ending = new Promise((resolve) => {
            window.WebSocket = class extends Real {
              constructor(url) {
                super(url);
                window.opened += 1;
                this.addEventListener('close', ({ code, wasClean }) => resolve([code, wasClean]));
              }
            };
          });
        });
        await own.evaluate(subscribe);
        // The client waits a little before it connects, and at most a minute before it does again.
        await own.clock.runFor(1_000);
        assert.deepEqual(await own.evaluate(() => window.ending), [1008, true]);
        await own.clock.runFor(120_000);
        assert.equal(await own.evaluate(() => window.opened), 1);
      });
    }
  }
});
