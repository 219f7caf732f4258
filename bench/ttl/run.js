// A finished run in the form that the page and `tidemark bench compare` read
// (../report/README.md), and the page itself.

import { readFile } from 'node:fs/promises';
import { encode } from '../report/src/codes.js';
import { POINTS, selfRatios, summarize } from './percentiles.js';
import { PUBLISHED } from './report.js';

const TEMPLATE = new URL('../scenarios/src/page.template', import.meta.url);
/** Most samples of a series that a page keeps, evenly; so it stays below a megabyte. */
const KEPT_MAX = 100_000;
/** Steps of a timeline. */
const STEPS = 60;
/** What tells of the machine; all else is a parameter. */
const MACHINE = ['cpu', 'cores', 'memory_mib', 'kernel'];
const ROLES = { uncached: 'reference', exact: 'subject', floor: 'floor', lean: 'floor' };
const METHOD =
  'The published list of 25 rows through the official SDK, one call after the other over one ' +
  'connection (a closed loop, as published). Latencies are therefore those of calls that were ' +
  'made: while an answer is slow the calls that would have waited behind it are never made, and ' +
  'do not count (coordinated omission). Before and after timing, every column of the page and ' +
  "the total were equal to the answer computed from the catalog's definition. The floor is the " +
  "same call against a static responder with the very bytes of the server's answer: the client's " +
  'own share of every sample; the lean floor sends the same body with the least head. ' +
  'Percentiles are by nearest rank, of all samples.';

const milli = (number) => Math.round(number * 1000) / 1000;

/** Points in microseconds under the form's own names. */
function pointsOf(points) {
  const told = POINTS.filter((point) => points[point] !== undefined);
  return Object.fromEntries(
    told.map((point) => [point === 'avg' ? 'mean' : point, milli(points[point])]),
  );
}

/** The phase in steps of the whole run; null where others had their turn. */
function timelineOf({ samples, ends }) {
  const stepMs = Math.max(...ends) / STEPS;
  if (!(stepMs > 0)) return undefined;
  const steps = Array.from({ length: STEPS }, () => []);
  samples.forEach((us, place) => {
    steps[Math.min(Math.floor(ends[place] / stepMs), STEPS - 1)].push(us);
  });
  const each = (value) => steps.map((step) => (step.length > 0 ? milli(value(step)) : null));
  const sum = (step) => step.reduce((total, us) => total + us, 0);
  return {
    step_ms: milli(stepMs),
    rate: each((step) => (step.length * 1e6) / sum(step)),
    p50_us: each((step) => summarize(step).p50),
    p99_us: each((step) => summarize(step).p99),
  };
}

/** At most `KEPT_MAX` samples, evenly. */
export function kept(samples) {
  const every = Math.max(Math.ceil(samples.length / KEPT_MAX), 1);
  return { every, codes: encode(samples.filter((_, place) => place % every === 0)) };
}

function seriesOf(phase) {
  const self = selfRatios(phase.samples);
  return {
    key: phase.name,
    title: phase.title,
    role: ROLES[phase.name] ?? 'other',
    source: 'measured',
    connections: 1,
    count: phase.samples.length,
    wall_ms: milli(phase.wallMs),
    points_us: pointsOf(summarize(phase.samples)),
    noise: self && {
      odd_to_even: milli(self.oddToEven),
      second_to_first: milli(self.secondToFirstHalf),
    },
    errors: 0,
    timeline: timelineOf(phase),
    samples: kept(phase.samples),
  };
}

function quotedSeries(key, title, published) {
  const inUs = Object.entries(published.points).map(([point, ms]) => [point, ms * 1000]);
  return {
    key,
    title,
    role: 'other',
    source: 'quoted',
    connections: 1,
    count: PUBLISHED.calls,
    wall_ms: published.wallMs,
    points_us: pointsOf(Object.fromEntries(inUs)),
  };
}

/** The run of `parameters` and `phases` as `runBench` gives them. */
export function runOf({ parameters, phases }) {
  const entries = Object.entries(parameters);
  const pick = (wanted) =>
    Object.fromEntries(entries.filter(([key]) => MACHINE.includes(key) === wanted));
  const { rows, index, cores, cpu } = parameters;
  const series = [
    ...phases.map(seriesOf),
    quotedSeries('published_uncached', 'Appwrite, published, no cache', PUBLISHED.uncached),
    quotedSeries('published_ttl', 'Appwrite, published, ttl', PUBLISHED.ttl),
  ];
  return {
    format: 'tidemark.run/1',
    kind: 'ttl-sdk',
    title: 'TTL list cache, official SDK',
    lead:
      `The published list query over ${rows} rows, ` +
      `${index ? 'with an index' : 'without an index, as published'}; ` +
      `node-appwrite, one connection, ${cores} cores of ${cpu}.`,
    method: METHOD,
    started: parameters.started,
    machine: pick(true),
    parameters: pick(false),
    groups: [{ key: 'list', title: 'list of 25 rows', connections: 1, series }],
  };
}

/** The page of a run. */
export async function pageOf(run) {
  const template = await readFile(TEMPLATE, 'utf8');
  // Within a script element only these could end it, or begin a comment.
  const json = JSON.stringify(run).replaceAll('<', '\\u003c');
  const title = run.title.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const [before, behind] = template.split('{{run}}');
  return before.replaceAll('{{title}}', () => title) + json + behind;
}
