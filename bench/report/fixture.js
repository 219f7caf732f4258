// A run for tests: drawn from a seed, shaped as a machine's samples are.

import { encode } from './src/codes.js';
import { FORMAT } from './src/run.js';

/** Numbers from 0 to 1, the same on every machine. */
function generator(seed) {
  let state = BigInt(seed);
  return () => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number(state >> 40n) / 2 ** 24;
  };
}

/** Latencies around `typical` microseconds with a tail. */
function latencies(count, typical, draw) {
  return Array.from({ length: count }, () => {
    const tail = draw() < 0.03 ? 1 + 12 * draw() ** 3 : 1;
    return typical * (0.82 + 0.3 * draw() + 0.1 * draw()) * tail;
  });
}

/** By the definition, and so by other means than the page's own code. */
export function nearestRank(samples, share) {
  const sorted = [...samples].sort((left, right) => left - right);
  return sorted[Math.max(Math.ceil(share * sorted.length - 1e-9), 1) - 1];
}

const POINTS = { p50: 0.5, p75: 0.75, p90: 0.9, p95: 0.95, p99: 0.99, 'p99.9': 0.999 };

function pointsOf(samples) {
  const points = Object.entries(POINTS).map(([name, share]) => [name, nearestRank(samples, share)]);
  return {
    ...Object.fromEntries(points),
    min: Math.min(...samples),
    max: Math.max(...samples),
    mean: samples.reduce((sum, one) => sum + one, 0) / samples.length,
  };
}

function timelineOf(samples, connections) {
  const steps = 40;
  const size = Math.ceil(samples.length / steps);
  const parts = Array.from({ length: steps }, (_, at) => samples.slice(at * size, (at + 1) * size));
  const sum = (part) => part.reduce((total, one) => total + one, 0);
  return {
    step_ms: sum(samples) / connections / steps / 1000,
    rate: parts.map((part) => (part.length * connections * 1e6) / sum(part)),
    p50_us: parts.map((part) => nearestRank(part, 0.5)),
    p99_us: parts.map((part) => nearestRank(part, 0.99)),
  };
}

function series(key, title, role, typical, more = {}) {
  const { count = 4_000, connections = 1, ...rest } = more;
  const samples = latencies(count, typical, generator(count + Math.round(typical)));
  return {
    key,
    title,
    role,
    source: 'measured',
    connections,
    count,
    wall_ms: samples.reduce((sum, one) => sum + one, 0) / connections / 1000,
    points_us: pointsOf(samples),
    noise: { odd_to_even: 1.004, second_to_first: 0.991 },
    errors: 0,
    timeline: timelineOf(samples, connections),
    samples: { every: 1, codes: encode(samples) },
    ...rest,
  };
}

const quoted = (key, title, points, wall) => ({
  key,
  title,
  role: 'other',
  source: 'quoted',
  connections: 1,
  count: 100_000,
  wall_ms: wall,
  points_us: points,
});

const list = {
  key: 'list',
  title: 'list of 25 rows',
  connections: 1,
  series: [
    series('uncached', 'no cache', 'reference', 410),
    series('exact', 'exact', 'subject', 76, { hits_percent: 99.98, count: 4_001 }),
    series('ttl', 'ttl 300', 'other', 79, { hits_percent: 100 }),
    series('floor', 'floor', 'floor', 63),
    quoted(
      'published_uncached',
      'Appwrite, published, no cache',
      {
        min: 10783,
        p50: 13187,
        p90: 15173,
        p95: 16450,
        p99: 21303,
        max: 118957,
        mean: 13626,
      },
      1363400,
    ),
    quoted(
      'published_ttl',
      'Appwrite, published, ttl',
      {
        min: 4146,
        p50: 6108,
        p90: 7862,
        p95: 8966,
        p99: 12527,
        max: 75173,
        mean: 6440,
      },
      644500,
    ),
  ],
};

const read = {
  key: 'read',
  title: 'read one row, 32 connections, 4 cores',
  cores: 4,
  connections: 32,
  series: [
    series('tidemark', 'Tidemark', 'subject', 860, {
      connections: 32,
      cpu_us: 27.4,
      memory_mib: 64,
    }),
    series('floor', 'static floor', 'floor', 520, { connections: 32, cpu_us: 15.1, memory_mib: 9 }),
    series('pocketbase', 'PocketBase', 'other', 7_300, { connections: 32 }),
    series('paced', 'Tidemark, paced', 'other', 610, { connections: 32 }),
  ],
};

export const run = {
  format: FORMAT,
  kind: 'ttl',
  title: 'TTL list cache, built-in client',
  lead: 'The published list query over 10000 rows, with an index; 1 connection, 2 cores of a test.',
  method: 'A run for tests, drawn from a seed. No server was asked for anything.',
  started: '2026-11-21T12:34:56.789Z',
  machine: { cpu: 'a test', cores: 2, kernel: 'none', memory_mib: 24_104 },
  parameters: { iterations: 4_000, rounds: 20, index: true, endpoint: 'http://127.0.0.1:8280/v1' },
  prices: {
    source: 'a test, November 2026',
    servers: [
      { name: '2 cores / 2 GB', cores: 2, memory_gb: 2, monthly: 3.85, currency: 'EUR' },
      { name: '4 cores / 8 GB', cores: 4, memory_gb: 8, monthly: 13.1, currency: 'EUR' },
    ],
  },
  groups: [list, read],
};

const TITLES = ['Adding', 'Reading', 'Fetching', 'E1', 'E2'];

/** The same with the table of the published load test. */
export const loadRun = {
  ...run,
  kind: 'load',
  title: 'Load test',
  groups: [read, list],
  columns: {
    titles: TITLES,
    shared: [0, 1, 2],
    note: 'Functions are not measured yet. Published figures: a load test of 2023.',
    rows: [
      {
        name: 'Tidemark, 2 cores, 256 connections',
        source: 'measured',
        rates: [4_100, 36_635, 51_630, null, null],
        monthly: 3.85,
        currency: 'EUR',
      },
      {
        name: 'published, 2 cores / 2 GB',
        source: 'quoted',
        rates: [170, 427, 241, 106, 80],
        monthly: 3.85,
        currency: 'EUR',
      },
    ],
  },
};

/** The same with tables of texts. */
export const tablesRun = {
  ...run,
  kind: 'bitemporal',
  title: 'Two time axes',
  prices: undefined,
  tables: [
    {
      title: 'Targets',
      heads: ['what', 'target', 'measured', 'met'],
      rows: [
        ['read by id, 1 client', '≥ 7000/s', '8123/s', 'yes'],
        ['read by id, 1 client, p99', '≤ 0.50 ms', '0.61 ms', 'no'],
        ['<b>PostgreSQL</b>', '≥ 0.6x', 'not measured here', '–'],
      ],
      note: 'Drawn from a seed.',
    },
    { title: 'Every operation', heads: ['operation', 'p50 µs'], rows: [['a', '1']], note: '' },
  ],
};

/** A page of `any` run, filled as the programs that measure fill it. */
export function fill(template, any) {
  const json = JSON.stringify(any).replaceAll('<', '\\u003c');
  const title = any.title.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const at = template.indexOf('{{run}}');
  const before = template.slice(0, at).replaceAll('{{title}}', () => title);
  return before + json + template.slice(at + '{{run}}'.length);
}
