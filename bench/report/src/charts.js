// Throughput and latency over time, and latency by share of requests.

import UPlot from 'uplot';
import { find, make, named } from './elements.js';
import { samplesOf } from './run.js';
import * as words from './words.js';

const HEIGHT = 220;
const WIDTH_MIN = 260;
/** Places of the curve of shares. */
const SHARES = 160;
/** The last share that is drawn, in nines: 99.99 %. */
const NINES_MAX = 4;

let charts = [];
let isolated = null;

/** As the theme shows it; the property itself holds the colours of both. */
function colour(name) {
  const shown = document.createElement('i');
  shown.style.color = `var(${name})`;
  document.body.append(shown);
  const { color } = getComputedStyle(shown);
  shown.remove();
  return color;
}

const inkOf = (series) => colour(`--${series.ink}`);

export function renderCharts({ group }) {
  charts.forEach(({ plot, watch }) => {
    watch.disconnect();
    plot.destroy();
  });
  charts = [];
  const timed = group.series.filter((series) => series.timeline?.rate.length > 1);
  find('time').hidden = group.series.every((series) => samplesOf(series) === null);
  find('time-hint').textContent = timed.length > 0 ? timeHint(timed[0].timeline.step_ms) : '';
  find('time-names').replaceChildren(
    ...group.series
      .filter((series) => samplesOf(series) !== null || timed.includes(series))
      .map(named),
  );
  drawRate(timed);
  drawLatency(timed);
  drawShares(group.series.filter((series) => samplesOf(series) !== null));
}

const timeHint = (stepMs) =>
  `Each point is the mean of ${words.span(stepMs / 1000)} of the run. Where series took turns, a ` +
  'rate is that of the time a series was running.';

/** Times of the longest timeline, in seconds. */
function secondsOf(timed) {
  const { timeline } = timed.reduce((left, right) =>
    left.timeline.rate.length >= right.timeline.rate.length ? left : right,
  );
  return timeline.rate.map((_, place) => ((place + 0.5) * timeline.step_ms) / 1000);
}

const isKnown = (value) => value !== null && value !== undefined;

/** Places whose neighbours are both missing: no line leads to them. */
function loneValues(self, line) {
  const values = self.data[line];
  return [...values.keys()].filter(
    (at) => isKnown(values[at]) && !isKnown(values[at - 1]) && !isKnown(values[at + 1]),
  );
}

const lineOf = (series, more = {}) => ({
  label: series.title,
  stroke: inkOf(series),
  width: 2,
  // A pause is a gap in the line; a value alone between two pauses is a point.
  spanGaps: false,
  points: { show: false, size: 4, filter: loneValues },
  place: series.place,
  ...more,
});

/** As many values as there are places; a shorter timeline ends in nothing. */
const filled = (values, places) => places.map((_, at) => values[at] ?? null);

function drawRate(timed) {
  if (timed.length === 0) return empty('chart-rate');
  const places = secondsOf(timed);
  const rows = timed.map((series) => filled(series.timeline.rate, places));
  return plot(
    'chart-rate',
    [places, ...rows],
    timed.map((series) => lineOf(series)),
    {
      x: (second) => `${second} s`,
      y: (value) => shortCount(value),
      say: (value) => words.rate(value),
    },
  );
}

function drawLatency(timed) {
  if (timed.length === 0) return empty('chart-latency');
  const places = secondsOf(timed);
  const rows = timed.flatMap(({ timeline }) => [
    filled(timeline.p50_us, places),
    filled(timeline.p99_us, places),
  ]);
  const lines = timed.flatMap((series) => [
    lineOf(series, { label: `${series.title} p50` }),
    lineOf(series, { label: `${series.title} p99`, dash: [4, 4], width: 1.5 }),
  ]);
  return plot('chart-latency', [places, ...rows], lines, {
    x: (second) => `${second} s`,
    y: (us) => words.latency(us),
    say: words.latency,
    isLogarithmic: true,
  });
}

/** Latency at each share, by nines: 50 %, 90 %, 99 %, 99.9 % stand equally far apart. */
function drawShares(sampled) {
  if (sampled.length === 0) return empty('chart-shares');
  const places = Array.from({ length: SHARES + 1 }, (_, at) => (at * NINES_MAX) / SHARES);
  const rows = sampled.map((series) => {
    const sorted = Float64Array.from(samplesOf(series)).sort();
    return places.map((nines) => {
      const share = 1 - 10 ** -nines;
      const beyond = sorted.length * 10 ** -nines;
      // Fewer than one sample beyond: the curve has nothing to stand on.
      if (beyond < 1) return null;
      return sorted[Math.max(Math.ceil(share * sorted.length) - 1, 0)];
    });
  });
  return plot(
    'chart-shares',
    [places, ...rows],
    sampled.map((series) => lineOf(series)),
    {
      x: (nines) => shareText(nines),
      y: (us) => words.latency(us),
      say: words.latency,
      isLogarithmic: true,
      splits: Array.from({ length: NINES_MAX + 1 }, (_, nines) => nines),
    },
  );
}

const shareText = (nines) => {
  const share = 100 * (1 - 10 ** -nines);
  return `${Number(share.toFixed(Math.max(Math.ceil(nines) - 1, 0)))} %`;
};

function shortCount(value) {
  if (value >= 1e6) return `${value / 1e6} M`;
  return value >= 1e3 ? `${value / 1e3} k` : String(value);
}

function empty(id) {
  find(id).replaceChildren(make('p', { class: 'hint' }, 'Not told for these series.'));
}

function axis(format, more = {}) {
  return {
    stroke: colour('--quiet'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: '12px system-ui, sans-serif',
    values: (_, splits) => splits.map((split) => (split === null ? '' : format(split))),
    ...more,
  };
}

/** Only ten, one, two and five: a logarithmic axis of uPlot names every step else. */
const isRound = (value) => {
  const lead = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
  return [1, 2, 5].some((step) => Math.abs(lead - step) < 1e-6);
};

function plot(id, columns, lines, { x, y, say, isLogarithmic = false, splits }) {
  const place = find(id);
  const options = {
    width: Math.max(place.clientWidth, WIDTH_MIN),
    height: HEIGHT,
    scales: {
      x: { time: false },
      y: isLogarithmic ? { distr: 3 } : { range: (_, __, most) => [0, most * 1.08 || 1] },
    },
    cursor: { drag: { x: false, y: false } },
    legend: { show: false },
    axes: [
      axis(x, { size: 28, gap: 4, ...(splits ? { splits: () => splits } : {}) }),
      axis(y, {
        size: 68,
        ...(isLogarithmic
          ? { filter: (_, found) => found.map((value) => (isRound(value) ? value : null)) }
          : {}),
      }),
    ],
    series: [{}, ...lines],
    hooks: { setCursor: [(self) => readOut(self, told, { x, say })] },
  };
  const told = make('p', { class: 'read-out', 'aria-hidden': 'true' });
  place.replaceChildren();
  const made = new UPlot(options, columns, place);
  place.append(told);
  place.setAttribute('role', 'img');
  place.setAttribute('aria-label', spoken(columns, lines, say));
  const watch = new ResizeObserver(() => {
    made.setSize({ width: Math.max(place.clientWidth, WIDTH_MIN), height: HEIGHT });
  });
  watch.observe(place);
  charts.push({ plot: made, watch, lines });
  fade();
}

/** The values under the pointer. */
function readOut(self, told, { x, say }) {
  const { idx } = self.cursor;
  if (idx === null || idx === undefined) {
    told.textContent = '';
    return;
  }
  const parts = self.series.slice(1).map((line, at) => {
    const value = self.data[at + 1][idx];
    return value === null ? null : `${line.label} ${say(value)}`;
  });
  const place = self.data[0][idx];
  told.textContent = [x(Number(place.toPrecision(3))), ...parts.filter(Boolean)].join(' · ');
}

/** The chart in a sentence, for who hears the page. */
function spoken(columns, lines, say) {
  const parts = lines.map((line, at) => {
    const known = columns[at + 1].filter((value) => value !== null);
    if (known.length === 0) return `${line.label}: nothing`;
    return `${line.label}: ${say(Math.min(...known))} to ${say(Math.max(...known))}`;
  });
  return parts.join('; ');
}

/** Fades all lines but those of the series that is singled out. */
function fade() {
  for (const { plot: made, lines } of charts) {
    lines.forEach((line, at) => {
      made.series[at + 1].alpha = isolated === null || line.place === isolated ? 1 : 0.15;
    });
    made.redraw(false);
  }
}

/** Follows the table of percentiles. */
export function prepareCharts() {
  document.addEventListener('isolate', ({ detail }) => {
    if (isolated === detail) return;
    isolated = detail;
    fade();
  });
}
