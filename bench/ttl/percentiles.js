/** The points every phase is reported at, in the order of the report. */
export const POINTS = ['min', 'p50', 'p75', 'p90', 'p95', 'p99', 'p99.9', 'max', 'avg'];

/**
 * The nearest-rank percentile: the smallest sample that at least `percent` per cent of all samples
 * do not exceed. `sorted` ascends and is not empty.
 */
export function percentile(sorted, percent) {
  // A product that should be whole may come out a trifle above it; the slack keeps its rank.
  const rank = Math.ceil((percent * sorted.length) / 100 - 1e-9);
  return sorted[Math.max(rank, 1) - 1];
}

/** All `POINTS` of the samples, in the samples' own unit. */
export function summarize(samples) {
  const sorted = Float64Array.from(samples).sort();
  const sum = sorted.reduce((total, sample) => total + sample, 0);
  const at = (point) => percentile(sorted, Number(point.slice(1)));
  const known = { min: sorted[0], max: sorted[sorted.length - 1], avg: sum / sorted.length };
  return Object.fromEntries(POINTS.map((point) => [point, known[point] ?? at(point)]));
}

const medianOf = (samples) => summarize(samples).p50;

/** The samples at every second place from `start`. */
const everySecond = (samples, start) => samples.filter((_, place) => place % 2 === start);

/**
 * How far one phase differs from itself: the ratio of the medians of its odd and even samples, and
 * of its second and first half. Differences between phases below these are noise. Null under 2.
 */
export function selfRatios(samples) {
  if (samples.length < 2) return null;
  const middle = samples.length >> 1;
  return {
    oddToEven: medianOf(everySecond(samples, 1)) / medianOf(everySecond(samples, 0)),
    secondToFirstHalf: medianOf(samples.slice(middle)) / medianOf(samples.slice(0, middle)),
  };
}
