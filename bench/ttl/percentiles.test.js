import assert from 'node:assert/strict';
import { test } from 'node:test';
import { percentile, selfRatios, summarize } from './percentiles.js';

const ONE_TO_TEN = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

for (const [sorted, percent, wanted] of [
  [[7], 50, 7],
  [[7], 99.9, 7],
  [[1, 2], 50, 1],
  [ONE_TO_TEN, 50, 5],
  [ONE_TO_TEN, 75, 8],
  [ONE_TO_TEN, 90, 9],
  [ONE_TO_TEN, 91, 10],
  [ONE_TO_TEN, 99.9, 10],
  // 99.9 * 1000 / 100 is a trifle above 999 in floating point.
  [Array.from({ length: 1000 }, (_, place) => place + 1), 99.9, 999],
]) {
  test(`p${percent} of ${sorted.length} samples is ${wanted}`, () => {
    assert.equal(percentile(sorted, percent), wanted);
  });
}

test('a summary sorts by value, not by text', () => {
  assert.deepEqual(summarize([100, 9, 20, 3]), {
    min: 3, p50: 9, p75: 20, p90: 100, p95: 100, p99: 100, 'p99.9': 100, max: 100, avg: 33,
  });
});

test('self ratios compare odd with even samples and half with half', () => {
  assert.deepEqual(selfRatios(Uint32Array.of(10, 20, 10, 20)), {
    oddToEven: 2,
    secondToFirstHalf: 1,
  });
  assert.equal(selfRatios(Uint32Array.of(10, 10, 30, 30)).secondToFirstHalf, 3);
  assert.equal(selfRatios(Uint32Array.of(10)), null);
});
