// The published benchmark: phases of sequential list calls, and the client-side floors.

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { DATABASE_ID, INDEX, readBench, readConnection, TABLE_ID, TTL_S } from './config.js';
import { startFloor } from './floor.js';
import { describeBinary, describeMachine, describeServer } from './machine.js';
import { progressBar } from './progress.js';
import { renderReport, renderTable, summarizePhases } from './report.js';
import { pageOf, runOf } from './run.js';
import {
  assertAnswer,
  expectedAnswer,
  listProducts,
  listUrl,
  openTables,
  requestHeaders,
} from './workload.js';

const US_PER_MS = 1000;

/** Samples are whole microseconds in 32 bits, so one call may last up to 71 minutes. */
function newPhase(name, title, call, iterations) {
  const samples = new Uint32Array(iterations);
  const ends = new Float64Array(iterations);
  return { name, title, call, samples, ends, wallMs: 0, lastAnswer: null };
}

/** Runs `phase` for its samples `from` to `to` (exclusive); ends are told from `origin`. */
async function timeSlice(phase, { from, to, origin }, bar) {
  const { call, samples, ends } = phase;
  const started = performance.now();
  for (let place = from; place < to; place += 1) {
    const before = performance.now();
    phase.lastAnswer = await call();
    const after = performance.now();
    samples[place] = Math.round((after - before) * US_PER_MS);
    ends[place] = after - origin;
    // Outside the timed span, and rarely, so that drawing does not cool the caches.
    if (place % 256 === 0) bar.report(place);
  }
  phase.wallMs += performance.now() - started;
}

async function warmUp(phase, warmup) {
  for (let call = 0; call < warmup; call += 1) await phase.call();
}

/**
 * Each phase whole, one after the other, when `rounds` is 1 (the published shape); otherwise cut in
 * `rounds` slices that take turns, so that a machine that drifts drifts for all of them.
 */
export async function runPhases(phases, { iterations, rounds, warmup }) {
  const origin = performance.now();
  for (let round = 0; round < rounds; round += 1) {
    const from = Math.floor((round * iterations) / rounds);
    const to = Math.floor(((round + 1) * iterations) / rounds);
    // Another one begins in each round, so that none always follows the same one.
    const turn = round % phases.length;
    for (const phase of [...phases.slice(turn), ...phases.slice(0, turn)]) {
      if (round === 0) await warmUp(phase, warmup);
      const bar = progressBar(phase.title, iterations);
      await timeSlice(phase, { from, to, origin }, bar);
      bar.report(to);
      bar.finish();
    }
  }
}

/** Asks by plain HTTP what the SDK does not show: the server's name and the cache header. */
async function probe(connection) {
  const ask = (ttl) =>
    fetch(listUrl(connection.endpoint, ttl), { headers: requestHeaders(connection) });
  const filled = await ask(TTL_S);
  await filled.arrayBuffer();
  const repeated = await ask(TTL_S);
  await repeated.arrayBuffer();
  return { response: repeated, cacheHeader: repeated.headers.get('x-appwrite-cache') ?? 'absent' };
}

async function isIndexed(tables) {
  const table = await tables.getTable({ databaseId: DATABASE_ID, tableId: TABLE_ID });
  return table.indexes.some((index) => index.key === INDEX.key);
}

async function purge(tables) {
  await tables.updateTable({ databaseId: DATABASE_ID, tableId: TABLE_ID, purge: true });
}

/** Compares every answer that is about to be timed with the one computed from the generator. */
async function checkAnswers(phases, expected, when) {
  for (const phase of phases) {
    const answer = when === 'before' ? await phase.call() : phase.lastAnswer;
    assertAnswer(expected, answer, `${phase.title} (${when} timing)`);
  }
}

/**
 * The whole benchmark against one server: check, time, check again.
 * @returns parameters and phases, as `renderReport` takes them
 * @throws Error when an answer differs from the expected one
 */
export async function runBench(connection, options) {
  const tables = openTables(connection);
  const expected = expectedAnswer(options.rowCount);
  const plain = newPhase('exact', 'exact', () => listProducts(tables), options.iterations);
  const anew = openTables({ ...connection, bypass: true });
  assertAnswer(expected, await plain.call(), 'the server');
  const probed = await probe(connection);
  const copied = [listUrl(connection.endpoint), requestHeaders(connection)];
  const floor = await startFloor(options.binary, ...copied);
  let lean = null;
  try {
    lean = await startFloor(options.binary, ...copied, true);
    const [floorTables, leanTables] = [floor, lean].map(({ origin }) =>
      openTables({ ...connection, endpoint: `${origin}/v1` }),
    );
    const phases = [
      newPhase('uncached', 'no cache', () => listProducts(anew), options.iterations),
      plain,
      newPhase('ttl', `ttl ${TTL_S}`, () => listProducts(tables, TTL_S), options.iterations),
      newPhase('floor', 'client floor', () => listProducts(floorTables), options.iterations),
      newPhase('lean', 'lean floor', () => listProducts(leanTables), options.iterations),
    ];
    await checkAnswers(phases, expected, 'before');
    // The check has filled the cache; the phase with ttl starts from an empty one, as published.
    await purge(tables);
    const startedAt = new Date();
    await runPhases(phases, options);
    await checkAnswers(phases, expected, 'after');
    const server = await describeServer(connection.endpoint, probed.response);
    const identity = await describeBinary(options.binary);
    return {
      parameters: {
        started: startedAt.toISOString(),
        iterations: options.iterations,
        rounds: options.rounds,
        warmup: options.warmup,
        rows: options.rowCount,
        index: await isIndexed(tables),
        ttl_s: TTL_S,
        cache_header_of_a_repeated_call: probed.cacheHeader,
        floor: floor.kind,
        ...server,
        ...identity,
        ...describeMachine(),
      },
      phases,
    };
  } finally {
    await floor.close();
    await lean?.close();
  }
}

/** Writes the run's folder: report, page and samples; returns the folder. */
export async function writeResults(measured, resultsDir) {
  const run = runOf(measured);
  const stem = run.started.replace(/\.\d+Z$/, 'Z').replaceAll(':', '-');
  const folder = path.join(resultsDir, `${stem}-${run.kind}`);
  await mkdir(folder, { recursive: true });
  await writeFile(path.join(folder, 'run.json'), `${JSON.stringify(run)}\n`);
  await writeFile(path.join(folder, 'report.html'), await pageOf(run));
  await writeFile(path.join(folder, 'report.md'), renderReport(measured, 'run.json'));
  return folder;
}

async function main() {
  const connection = readConnection(process.env);
  const options = readBench(process.env);
  const run = await runBench(connection, options);
  const folder = await writeResults(run, options.resultsDir);
  console.log(renderTable(summarizePhases(run.phases)));
  console.log(`\nReport: ${path.join(folder, 'report.md')}`);
  console.log(`Page: ${pathToFileURL(path.resolve(folder, 'report.html')).href}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  main().catch((error) => {
    console.error(`bench: ${error.message}`);
    process.exitCode = 1;
  });
}
