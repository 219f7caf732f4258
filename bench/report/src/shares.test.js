import assert from 'node:assert/strict';
import { test } from 'node:test';
import { latencyAt, shuffledShares } from './shares.js';

test('a shuffle holds every share once and is the same for each lane', () => {
  const shares = shuffledShares(200);
  assert.deepEqual(shares, shuffledShares(200));
  const sorted = [...shares].sort((left, right) => left - right);
  assert.notDeepEqual(shares, sorted);
  assert.deepEqual(
    sorted,
    Array.from({ length: 200 }, (_, at) => (at + 0.5) / 200),
  );
});

test('a lane whose machine was slow at first needs no longer for that', () => {
  const quick = Array.from({ length: 1_000 }, (_, at) => 100 + (at % 50));
  const drifted = [...quick].sort((left, right) => right - left);
  const sum = (samples) =>
    shuffledShares(200)
      .map(latencyAt({ points_us: {} }, samples))
      .reduce((left, right) => left + right);
  assert.equal(sum(drifted), sum(quick));
});

test('quoted percentiles answer with the published one at or above the share', () => {
  const at = latencyAt({ points_us: { mean: 7, p50: 10, p99: 40, p90: 20 } }, null);
  assert.deepEqual([0.1, 0.5, 0.6, 0.95, 0.999].map(at), [10, 10, 20, 40, 40]);
});
