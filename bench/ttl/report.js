import { POINTS, selfRatios, summarize } from './percentiles.js';

/** The benchmark's published results, one connection on its authors' machine, in milliseconds. */
export const PUBLISHED = {
  source: 'appwrite-community/ttl-benchmark and its write-up of 21 April 2026',
  calls: 100_000,
  uncached: {
    points: {
      min: 10.783, p50: 13.187, p90: 15.173, p95: 16.45, p99: 21.303, max: 118.957, avg: 13.626,
    },
    wallMs: 1_363_400,
    perSecond: 73,
  },
  ttl: {
    points: { min: 4.146, p50: 6.108, p90: 7.862, p95: 8.966, p99: 12.527, max: 75.173, avg: 6.44 },
    wallMs: 644_500,
    perSecond: 155,
  },
};

const US_PER_MS = 1000;

const ms = (us) => (us / US_PER_MS).toFixed(3);
const ratio = (left, right) => `${(left / right).toFixed(2)}x`;
const row = (cells) => `| ${cells.join(' | ')} |`;

function table(header, rows) {
  const rule = header.map((_, place) => (place === 0 ? '---' : '---:'));
  return [row(header), row(rule), ...rows.map(row)].join('\n');
}

/** Wall time as the published results write it: `22m43.4s`. */
export function formatWall(wallMs) {
  const tenths = Math.round(wallMs / 100);
  const minutes = Math.floor(tenths / 600);
  const seconds = ((tenths % 600) / 10).toFixed(1);
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`;
}

/** Per phase by name: its points in microseconds, wall time in milliseconds, and self ratios. */
export function summarizePhases(phases) {
  return Object.fromEntries(
    phases.map(({ name, title, samples, wallMs }) => [
      name,
      {
        title,
        wallMs,
        count: samples.length,
        points: summarize(samples),
        self: selfRatios(samples),
      },
    ]),
  );
}

const perSecond = ({ count, wallMs }) => Math.round((count * 1000) / wallMs);

const times = (slowUs, fastUs) => `${(slowUs / fastUs).toFixed(1)} times as fast as`;

/** How far above the floor a median is: `2 % above the SDK alone`. */
function aboveFloor(us, floorUs) {
  const percent = Math.round((us / floorUs - 1) * 100);
  if (percent === 0) return 'equal to the SDK alone';
  return `${Math.abs(percent)} % ${percent > 0 ? 'above' : 'below'} the SDK alone`;
}

/**
 * The short table, readable without the rest of the report: the published figures, then ours, each
 * with what its median says in words. Published and measured figures are never put in one ratio.
 */
export function renderTable(summary) {
  const [floorUs, plainUs] = ['floor', 'uncached'].map((name) => summary[name].points.p50);
  const { uncached, ttl } = PUBLISHED;
  const quoted = (title, { perSecond: rate, points }, words) => [
    title, rate, points.avg.toFixed(2), points.p50.toFixed(2), points.p99.toFixed(2), words,
  ];
  const measured = (title, name, words) => {
    const { points, ...phase } = summary[name];
    const figures = [points.avg, points.p50, points.p99].map((us) => (us / US_PER_MS).toFixed(2));
    return [title, perSecond({ points, ...phase }), ...figures, words];
  };
  const publishedRatio = times(uncached.points.p50, ttl.points.p50);
  const cached = (name) => {
    const us = summary[name].points.p50;
    return `${times(plainUs, us)} no cache, ${aboveFloor(us, floorUs)}`;
  };
  return table(
    ['25 rows through the SDK', 'calls/s', 'avg ms', 'p50 ms', 'p99 ms', 'in words (p50)'],
    [
      quoted('*Appwrite, no cache*', uncached, '*published, another machine*'),
      quoted('*Appwrite, ttl 300*', ttl, `*${publishedRatio} no cache*`),
      measured('here, no cache', 'uncached', aboveFloor(plainUs, floorUs)),
      measured('here, exact: never stale', 'exact', cached('exact')),
      measured('here, ttl 300', 'ttl', cached('ttl')),
      measured('the SDK alone', 'floor', 'a server that always sends the same bytes'),
      measured('the same, lean', 'lean', 'the same body, and the least head'),
    ],
  );
}

const PERCENTILE_HEADER = [
  'ms', 'no cache', 'exact', 'ttl', 'floor', 'lean floor', 'no cache / exact', 'no cache / ttl',
  'exact / ttl', 'exact / floor', 'ttl / floor', 'exact / lean', 'ttl / lean',
];

/** Every point of every phase in milliseconds, with ratios. */
export function renderPercentiles(summary) {
  const phases = ['uncached', 'exact', 'ttl', 'floor', 'lean'].map((name) => summary[name]);
  return table(
    PERCENTILE_HEADER,
    POINTS.map((point) => {
      const values = phases.map((phase) => phase.points[point]);
      const [uncachedUs, exactUs, ttlUs, floorUs, leanUs] = values;
      return [
        point,
        ...values.map(ms),
        ratio(uncachedUs, exactUs),
        ratio(uncachedUs, ttlUs),
        ratio(exactUs, ttlUs),
        ratio(exactUs, floorUs),
        ratio(ttlUs, floorUs),
        ratio(exactUs, leanUs),
        ratio(ttlUs, leanUs),
      ];
    }),
  );
}

function renderPublished({ uncached, exact, ttl }) {
  const quoted = POINTS.filter((point) => PUBLISHED.uncached.points[point] !== undefined);
  const line = (name, published, here) => [
    name, published(PUBLISHED.uncached), here(uncached), here(exact), published(PUBLISHED.ttl),
    here(ttl),
  ];
  const times = quoted.map((point) =>
    line(
      point,
      ({ points }) => points[point].toFixed(3),
      ({ points }) => ms(points[point]),
    ),
  );
  return table(
    ['ms', 'published, no cache', 'no cache, here', 'exact, here', 'published, ttl', 'ttl, here'],
    [
      ...times,
      line('calls/s', (published) => published.perSecond, perSecond),
      line(
        'wall',
        ({ wallMs }) => formatWall(wallMs),
        ({ wallMs }) => formatWall(wallMs),
      ),
    ],
  );
}

function renderSelf(summary) {
  const phases = Object.values(summary).filter((phase) => phase.self !== null);
  return table(
    ['phase', 'odd / even samples', 'second / first half'],
    phases.map(({ title, self }) => [
      title,
      self.oddToEven.toFixed(3),
      self.secondToFirstHalf.toFixed(3),
    ]),
  );
}

function frontMatter(parameters, summary) {
  const phases = Object.entries(summary).flatMap(([name, phase]) => [
    [`${name}_avg_ms`, Number(ms(phase.points.avg))],
    [`${name}_wall_ms`, Math.round(phase.wallMs)],
  ]);
  // A JSON scalar is a YAML scalar, so every value is quoted as it must be.
  const lines = [...Object.entries(parameters), ...phases].map(
    ([key, value]) => `${key}: ${JSON.stringify(value)}`,
  );
  return `---\n${lines.join('\n')}\n---\n`;
}

/** The report as Markdown. `samplesName` is the file of raw samples beside it. */
export function renderReport({ parameters, phases }, samplesName) {
  const summary = summarizePhases(phases);
  const index = parameters.index ? 'with the index' : 'without a secondary index (as published)';
  const order =
    parameters.rounds === 1
      ? 'the phases ran one after the other'
      : `each phase was cut in ${parameters.rounds} slices that took turns`;
  return `${frontMatter(parameters, summary)}
# TTL list-cache benchmark through the official SDK

${parameters.iterations} sequential calls per phase over ${parameters.rows} rows, ${index};
${order}, each after ${parameters.warmup} untimed calls. Before and after timing, all columns of
the page and the total were equal to the answer computed from the catalog's definition.

The floor is the same SDK call against a static responder (${parameters.floor}) that returns
the very bytes of the server's answer: the client's own share of every sample. The lean floor
returns the same body with its type and length alone. Nothing is to be told from a floor where the
ratio to it is no further from 1 than a phase is from itself (A against A).

${renderTable(summary)}

## Percentiles

${renderPercentiles(summary)}

## A against A

Medians of one phase against itself. Differences between phases that are no larger are noise.

${renderSelf(summary)}

## Beside the published results

Another machine, so only the ratios compare. Source: ${PUBLISHED.source}.

${renderPublished(summary)}

The same to look at: [report.html](report.html). Samples: [${samplesName}](${samplesName}).
`;
}
