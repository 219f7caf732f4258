import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as words from './words.js';

test('numbers are written as people read them', () => {
  const cases = [
    [words.latency(0.3), '0.30 µs'],
    [words.latency(75.24), '75.2 µs'],
    [words.latency(1_234), '1.23 ms'],
    [words.latency(2_100_000), '2.10 s'],
    [words.span(0.25), '250 ms'],
    [words.span(59.9), '59.9 s'],
    [words.span(60), '1 min'],
    [words.span(3_599.6), '1 h'],
    [words.span(90_000), '1 d 1 h'],
    [words.span(40_000_000), '1 y 98 d'],
    [words.requests(20_000), '20,000'],
    [words.requests(2_500_000_000), '2.5 billion'],
    [words.money(0.0000123456, 'EUR'), '0.0000123 EUR'],
    [words.money(3.855, 'EUR'), '3.85 EUR'],
    [words.money(0, 'EUR'), '0.00 EUR'],
    [words.money(12_345.6, 'EUR'), '12,346 EUR'],
    [words.times(0.5), '0.50×'],
    [words.rate(null), '–'],
    [words.value(true), 'yes'],
    [words.value(12345.5), '12,345.5'],
    [words.grouped('≥ 7000/s of 100000 rows'), '≥ 7,000/s of 100,000 rows'],
    [words.grouped('2026-11-22T06 of 2026, 0.12345'), '2026-11-22T06 of 2026, 0.12345'],
  ];
  for (const [written, wanted] of cases) assert.equal(written, wanted);
});
