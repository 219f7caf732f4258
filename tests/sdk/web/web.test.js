// Pages of three origins call the server through the web SDK in a real browser.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Server } from '../node/server.js';

const FILES = {
  '/page.html': ['text/html', 'page.html'],
  '/page.js': ['text/javascript', 'page.js'],
  '/sdk.js': ['text/javascript', 'node_modules/appwrite/dist/iife/sdk.js'],
};
const T = { databaseId: 'd', tableId: 't' };
/** How long a browser may take to start and run all cases; a hang fails, not waits. */
const LIMIT_MS = 60_000;

let server;
let site;
before(async () => {
  const env = { TIDEMARK_CORS_ORIGIN: '*.shop.test', TIDEMARK_LOG_LEVEL: 'info,access=debug' };
  server = await Server.start({ env });
  const db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  const permissions = ['read', 'create', 'update', 'delete'].map((verb) => `${verb}("any")`);
  const columns = [{ key: 'n', type: 'integer', required: false }];
  await db.createTable({ ...T, name: 'T', columns, permissions });
  for (const n of [1, 2, 3]) await db.createRow({ ...T, rowId: `r${n}`, data: { n } });
  site = await serveFiles();
});
after(async () => {
  site.close();
  await server.close();
});

async function serveFiles() {
  const files = http.createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://page');
    if (pathname === '/report') {
      let text = '';
      for await (const piece of request) text += piece;
      response.end();
      files.emit('report', JSON.parse(text));
      return;
    }
    const [type, name] = FILES[pathname] ?? [];
    if (!name) return response.writeHead(404).end();
    const body = await readFile(path.join(import.meta.dirname, name));
    response.writeHead(200, { 'content-type': type }).end(body);
  });
  files.listen(0, '127.0.0.1');
  await once(files, 'listening');
  return files;
}

/** What the page reports when it is opened under this host name. */
async function reportOf(host) {
  const { endpoint, projectId } = server.bootstrap;
  const given = new URLSearchParams({ endpoint, project: projectId });
  const page = `http://${host}:${site.address().port}/page.html?${given}`;
  const profile = await mkdtemp(path.join(os.tmpdir(), 'tidemark-web-'));
  const browser = spawn(
    process.env.CHROMIUM ?? 'chromium',
    [
      ...['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run'],
      ...['--disable-background-networking', `--user-data-dir=${profile}`],
      ...['--host-resolver-rules=MAP *.test 127.0.0.1', page],
    ],
    { stdio: 'ignore' },
  );
  const exited = once(browser, 'exit');
  try {
    const signal = AbortSignal.timeout(LIMIT_MS);
    const [report] = await once(site, 'report', { signal });
    return report;
  } finally {
    browser.kill();
    await exited;
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

function answeredNotModified() {
  return server.output.split('\n').filter((line) => line.includes('status=304')).length;
}

for (const host of ['localhost', 'www.shop.test']) {
  test(`a page of ${host} lists, writes, reads refusals and revalidates`, async () => {
    const before = answeredNotModified();
    const report = await reportOf(host);
    assert.deepEqual(report.list, { total: 2, ids: ['r2', 'r1'] });
    assert.deepEqual(report.write, [7, 8, 9]);
    assert.deepEqual(report.refusal, { code: 404, type: 'row_not_found' });
    assert.deepEqual(report.revalidation, { first: 200, second: 200, same: true });
    assert.deepEqual(report.condition, {
      status: 304,
      text: '',
      read: ['etag', 'x-appwrite-cache', 'x-tidemark-cache', 'x-request-id'],
    });
    // One was asked for by the browser's own cache, one by the page.
    assert.equal(answeredNotModified() - before, 2);
  });
}

test('a page of a foreign origin learns nothing and changes nothing', async () => {
  const report = await reportOf('foreign.test');
  for (const [name, found] of Object.entries(report)) {
    assert.match(JSON.stringify(found), /Failed to fetch|\{\}/, name);
  }
  const { total } = await server.tables().listRows(T);
  assert.equal(total, 3);
});
