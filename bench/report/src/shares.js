// The shares that a race draws: one shuffle for all lanes, so that order decides nothing.

/** Any number; the same one makes every reader see the same race. */
const SEED = 20_251;

/** Numbers from 0 to 1 (mulberry32). */
function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `count` equally spaced shares of a distribution, each once, in an order drawn from the seed. */
export function shuffledShares(count) {
  const random = randomFrom(SEED);
  const shares = Array.from({ length: count }, (_, at) => (at + 0.5) / count);
  for (let at = count - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [shares[at], shares[other]] = [shares[other], shares[at]];
  }
  return shares;
}

/** From a share to a latency in microseconds: of the samples, or of the known percentiles. */
export function latencyAt({ points_us: points }, samples) {
  if (samples?.length > 0) {
    const sorted = Float64Array.from(samples).sort();
    return (share) => sorted[Math.floor(share * sorted.length)];
  }
  const known = Object.entries(points)
    .filter(([point, us]) => /^(p|max$)/.test(point) && us > 0)
    .map(([point, us]) => ({ share: point === 'max' ? 1 : Number(point.slice(1)) / 100, us }))
    .sort((left, right) => left.share - right.share);
  return (share) => (known.find((one) => one.share >= share) ?? known.at(-1)).us;
}
