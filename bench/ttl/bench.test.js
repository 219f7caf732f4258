// The benchmark whole, through the official client, against a server that knows one list.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { decode } from '../report/src/codes.js';
import { runBench, runPhases, writeResults } from './bench.js';
import { startFloor } from './floor.js';
import { kept } from './run.js';
import {
  expectedAnswer,
  firstDifference,
  listProducts,
  listUrl,
  openTables,
} from './workload.js';

const ROW_COUNT = 500;
const LIST_PATH = '/v1/tablesdb/bench_db/tables/products/rows';
const TABLE = { $id: 'products', columns: [], indexes: [] };

const opened = [];
after(async () => {
  for (const close of opened) await close();
});

/** Serves `answer` as the list; `seen` collects the requests. */
async function serve(answer) {
  const seen = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url, 'http://localhost');
    const ttl = url.searchParams.has('ttl') ? ' ttl' : '';
    const bypass = request.headers['x-tidemark-cache'] === 'bypass' ? ' bypass' : '';
    seen.push(`${request.method} ${url.pathname}${ttl}${bypass}`);
    const bodies = {
      [LIST_PATH]: answer,
      '/v1/tablesdb/bench_db/tables/products': TABLE,
      '/v1/health/version': { version: '1.9.6' },
    };
    request.resume();
    response.setHeader('Content-Type', 'application/json; charset=UTF-8');
    response.setHeader('Server', 'one-list');
    if (url.searchParams.has('ttl')) response.setHeader('X-Appwrite-Cache', 'hit');
    response.end(JSON.stringify(bodies[url.pathname]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push(() => new Promise((done) => server.close(done).closeAllConnections()));
  const endpoint = `http://127.0.0.1:${server.address().port}/v1`;
  return { connection: { endpoint, projectId: 'p', apiKey: 'k' }, seen };
}

const options = { iterations: 20, rounds: 1, warmup: 2, rowCount: ROW_COUNT, binary: null };

test('a run times five phases and writes report, page and samples', async () => {
  const { connection, seen } = await serve(expectedAnswer(ROW_COUNT));
  const run = await runBench(connection, options);
  const count = (what) => seen.filter((request) => request === what).length;
  // First answer, a copy for each floor, check, then warm-up and samples.
  assert.equal(count(`GET ${LIST_PATH}`), 4 + 2 + 20);
  assert.equal(count(`GET ${LIST_PATH} bypass`), 1 + 2 + 20);
  // Two probes, check, then warm-up and samples.
  assert.equal(count(`GET ${LIST_PATH} ttl`), 3 + 2 + 20);
  assert.equal(count('PUT /v1/tablesdb/bench_db/tables/products'), 1);

  const resultsDir = await mkdtemp(path.join(os.tmpdir(), 'ttl-bench-'));
  opened.push(() => rm(resultsDir, { recursive: true }));
  const folder = await writeResults(run, resultsDir);
  assert.match(folder, /Z-ttl-sdk$/);
  const read = (name) => readFile(path.join(folder, name), 'utf8');
  const report = await read('report.md');
  assert.match(report, /\nserver: "one-list"\nserver_version: "1.9.6"\n/);
  assert.match(report, /\nbinary_sha256: null\ncheckout: /);
  assert.match(report, /\ncache_header_of_a_repeated_call: "hit"\n/);
  assert.match(report, /\nsdk: "node-appwrite 27.1.0"\n/);
  const raw = JSON.parse(await read('run.json'));
  const { series } = raw.groups[0];
  const measured = series.filter(({ source }) => source === 'measured');
  assert.deepEqual(measured.map(({ key }) => key), ['uncached', 'exact', 'ttl', 'floor', 'lean']);
  for (const { samples, points_us: points, timeline } of measured) {
    const decoded = decode(samples.codes);
    assert.equal(decoded.length, 20);
    // By the definition, from what the file holds.
    const median = [...decoded].sort((left, right) => left - right)[9];
    assert.ok(Math.abs(points.p50 / median - 1) < 0.002, `${points.p50} is not ${median}`);
    assert.equal(timeline.rate.length, 60);
  }
  const quoted = series.filter(({ source }) => source === 'quoted');
  assert.deepEqual(quoted.map(({ points_us: points }) => points.p50), [13187, 6108]);
  const page = await read('report.html');
  const [, embedded] = /<script type="application\/json" id="run">(.*?)<\/script>/s.exec(page);
  assert.deepEqual(JSON.parse(embedded), raw);
});

test('the floors repeat one body, the lean one with the least head', async () => {
  const { connection } = await serve(expectedAnswer(ROW_COUNT));
  const url = listUrl(connection.endpoint);
  const answers = [];
  for (const lean of [false, true]) {
    const floor = await startFloor(null, url, {}, lean);
    opened.push(() => floor.close());
    const response = await fetch(floor.origin);
    answers.push([response.headers.get('server'), await response.text()]);
    assert.equal(response.headers.get('content-type'), 'application/json; charset=UTF-8');
  }
  const body = JSON.stringify(expectedAnswer(ROW_COUNT));
  assert.deepEqual(answers, [['one-list', body], [null, body]]);
});

test('of many samples a page keeps every so many', () => {
  const few = kept(Uint32Array.from({ length: 7 }, (_, at) => at + 1));
  assert.deepEqual([few.every, decode(few.codes).length], [1, 7]);
  const many = kept(new Uint32Array(250_000).fill(9));
  assert.deepEqual([many.every, decode(many.codes).length], [3, 83_334]);
});

test('a wrong answer ends the run before anything is timed', async () => {
  const wrong = structuredClone(expectedAnswer(ROW_COUNT));
  wrong.rows[3].price += 1;
  const { connection, seen } = await serve(wrong);
  await assert.rejects(runBench(connection, options), /nothing is measured: rows\[3\]\.price:/);
  assert.equal(seen.length, 1);
});

const right = expectedAnswer(ROW_COUNT);
for (const [what, spoil, wanted] of [
  ['the total', (answer) => (answer.total += 1), /^total: expected \d+, got \d+$/],
  ['the number of rows', (answer) => answer.rows.pop(), /^rows: expected 25, got 24$/],
  ['the order', (answer) => answer.rows.reverse(), /^rows\[0\]\.\$id: /],
  ['an array', (answer) => answer.rows[24].tags.push('x'), /^rows\[24\]\.tags: /],
  ['a missing column', (answer) => delete answer.rows[0].sku, /^rows\[0\]\.sku: .* got undefined$/],
]) {
  test(`${what} is compared`, () => {
    const answer = structuredClone(right);
    assert.equal(firstDifference(right, answer), null);
    spoil(answer);
    assert.match(firstDifference(right, answer), wanted);
  });
}

test('the expected page over 10,000 rows is the one CATALOG.md names', () => {
  const { total, rows } = expectedAnswer(10_000);
  assert.equal(total, 582);
  assert.deepEqual(
    rows.slice(0, 5).map((row) => row.$id),
    ['product-07221', 'product-02881', 'product-04737', 'product-01606', 'product-04407'],
  );
});

test('rounds cut each phase in slices that take turns and miss no sample', async () => {
  const calls = [];
  const phase = (name) => ({
    title: name,
    call: async () => calls.push(name),
    samples: new Uint32Array(5).fill(0xffff_ffff),
    ends: new Float64Array(5),
    wallMs: 0,
  });
  const phases = [phase('a'), phase('b')];
  await runPhases(phases, { iterations: 5, rounds: 2, warmup: 1 });
  assert.equal(calls.join(''), 'a' + 'aa' + 'b' + 'bb' + 'bbb' + 'aaa');
  for (const { samples } of phases) assert.ok(samples.every((sample) => sample < 0xffff_ffff));
});

test('the plain URL is the one the official client asks for', async () => {
  let asked = null;
  const server = createServer((request, response) => {
    asked = request.url;
    response.setHeader('Content-Type', 'application/json');
    response.end('{"total":0,"rows":[]}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push(() => new Promise((done) => server.close(done).closeAllConnections()));
  const endpoint = `http://127.0.0.1:${server.address().port}/v1`;
  await listProducts(openTables({ endpoint, projectId: 'p', apiKey: 'k' }), 300);
  assert.equal(`http://127.0.0.1:${server.address().port}${asked}`, listUrl(endpoint, 300));
});
