import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explain, PLACES, placeOf, priceOf, requestsAt, wallOf } from './scale.js';

const measured = { count: 20_000, wall_ms: 4_000, source: 'measured' };

test('the slider goes from a thousand to ten billion, and stops at what was measured', () => {
  assert.equal(requestsAt(0, 20_000), 1_000);
  assert.equal(requestsAt(PLACES, 20_000), 10_000_000_000);
  assert.equal(requestsAt(placeOf(20_001), 20_001), 20_001);
  for (let place = 1; place <= PLACES; place += 1) {
    const [before, here] = [place - 1, place].map((at) => requestsAt(at, 20_001));
    assert.ok(here > before, `${before} at ${place - 1}, ${here} at ${place}`);
  }
});

test('a measured run outside the slider is at its end', () => {
  assert.equal(requestsAt(placeOf(40), 40), 40);
});

test('only the number that was measured is called measured', () => {
  assert.deepEqual(wallOf(measured, 20_000), { seconds: 4, kind: 'measured' });
  assert.deepEqual(wallOf(measured, 20_001).kind, 'extrapolated');
  assert.deepEqual(wallOf(measured, 5_000), { seconds: 1, kind: 'extrapolated' });
  assert.deepEqual(wallOf({ ...measured, source: 'quoted' }, 20_000).kind, 'quoted');
  assert.equal(wallOf({ count: 0, wall_ms: 0 }, 5), null);
});

test('an extrapolated number says from what', () => {
  assert.equal(explain(measured, 20_000), 'measured');
  assert.equal(explain(measured, 1_000_000), 'extrapolated × 50 from measured 20,000');
  assert.equal(explain(measured, 10_000), 'extrapolated ÷ 2 from measured 20,000');
});

test('a price is the month divided by what a month answers', () => {
  // 1,000/s for 2,629,800 s.
  const { billion, perRate, perUnit } = priceOf(1_000, 2_629.8);
  assert.ok(Math.abs(billion - 1_000) < 1e-6);
  assert.ok(Math.abs(perRate - 2.6298) < 1e-9);
  assert.ok(Math.abs(perUnit - 1e6) < 1e-6);
  assert.equal(priceOf(1_000, 0).perUnit, null, 'nothing divides by a price of nothing');
  assert.equal(priceOf(null, 5), null);
});
