// Queries as texts, without a server.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { asOf, freshness, validAt, validBetween, versions } from 'tidemark';

const values = (text) => text.slice(text.indexOf('['), -1);

test('queries are what the server reads', () => {
  assert.equal(asOf('2026-05-01'), '{"method":"asOf","values":["2026-05-01"]}');
  assert.equal(versions(), '{"method":"versions","values":[]}');
  assert.equal(validBetween('min', 5), '{"method":"validBetween","values":["min",5]}');
  for (const open of [validBetween('2026-05-01'), validBetween('2026-05-01', null)]) {
    assert.deepEqual(JSON.parse(open).values, ['2026-05-01', null]);
  }
});

test('instants of every kind are taken, each exactly', () => {
  const cases = [
    [runInNewContext('new Date(0)'), '["1970-01-01T00:00:00.000Z"]'],
    [new Date(0), '["1970-01-01T00:00:00.000Z"]'],
    [new Date('0000-01-01T00:00:00Z'), '["0000-01-01T00:00:00.000Z"]'],
    [0, '[0]'],
    [-5, '[-5]'],
    [1_767_225_600_000_001, '[1767225600000001]'],
    [1_700_000_000_000n, '[1700000000000]'],
    [253_402_300_799_999_999n, '[253402300799999999]'],
    [-62_167_219_200_000_000n, '[-62167219200000000]'],
  ];
  for (const [given, written] of cases) assert.equal(values(validAt(given)), written);
  const texts = [
    'min',
    '0000-01-01',
    '2024-02-29',
    '2026-05-01T12:00',
    '2026-05-01 12:00:00',
    '2026-05-01t12:00:60,5z',
    '2026-05-01T12:00:00.1234567+02:00',
    '2026-05-01T12:00:00-0230',
    '2026-05-01T12:00:00+02',
  ];
  for (const text of texts) assert.equal(values(validAt(text)), JSON.stringify([text]));
});

test('what is no instant says what it is, and where', () => {
  const cases = [
    [undefined, /^asOf takes a Date, an ISO 8601 text or microseconds since 1970, not undefined$/],
    [null, /not null$/],
    [true, /not boolean$/],
    [{}, /not object$/],
    [new Date('x'), /^asOf: the Date is invalid$/],
    [new Date(253_402_300_800_000), /years 0000 to 9999, not at a Date of the year 10000$/],
    [new Date(-62_167_219_200_001), /not at a Date of the year -1$/],
    [1.5, /1\.5 is no whole number/],
    [Number.NaN, /NaN is no whole number/],
    [2 ** 53, /too large to be exact, send a bigint/],
    [1_767_225_600_000, /send new Date\(1767225600000\); if not, send 1767225600000n$/],
    [253_402_300_800_000_000n, /not at 253402300800000000 microseconds$/],
    [-62_167_219_200_000_001n, /not at -62167219200000001 microseconds$/],
    ['2026', /"2026" could be a year or microseconds; send "2026-01-01", or a number$/],
    ['', /"" is no date or time/],
    ['2026-05', /is no date or time, such as "2026-05-01"/],
    ['2026-13-01', /no date/],
    ['2026-02-30', /no date/],
    ['2025-02-29', /no date/],
    ['1 May 2026', /no date/],
    ['2026-05-01T', /no date/],
    ['2026-05-01T24:00', /no date/],
    ['2026-05-01T12', /no date/],
    ['2026-05-01T12:60', /no date/],
    ['2026-05-01T12:00:61', /no date/],
    ['2026-05-01T12:00 Europe/Berlin', /no date/],
    ['2026-05-01T12:00+24:00', /no date/],
    ['2026-05-01"', /no date/],
    ['x'.repeat(1e6), /^asOf: "x{60}…" is/],
  ];
  for (const [given, why] of cases) {
    assert.throws(() => asOf(given), (error) => {
      assert.ok(error instanceof TypeError || error instanceof RangeError, String(error));
      assert.match(error.message, why);
      return true;
    });
  }
  assert.throws(() => validBetween('x', '2026-01-01'), /^RangeError: the beginning of validBetween: /);
  assert.throws(() => validBetween('2026-01-01', 'x'), /^RangeError: the end of validBetween: /);
});

test('headers say how fresh an answer is', () => {
  const cases = [
    [{}, null],
    [{ 'x-tidemark-erased': 'false' }, null],
    [{ 'x-tidemark-mark': '5' }, { cache: null, mark: 5, age: null, isExact: true }],
    [
      { 'x-tidemark-mark': '5', 'x-tidemark-erased': 'true' },
      { cache: null, mark: 5, age: null, isExact: true, erased: true },
    ],
    [
      { 'x-tidemark-cache': 'hit; mark=7; age=3', 'x-tidemark-erased': 'true' },
      { cache: 'hit', mark: 7, age: 3, isExact: true, erased: true },
    ],
    [
      { 'x-tidemark-erased': 'true' },
      { cache: null, mark: null, age: null, isExact: true, erased: true },
    ],
    [{ 'x-tidemark-cache': 'hit; mark=7; age=3' }, { cache: 'hit', mark: 7, age: 3, isExact: true }],
    [
      { 'x-tidemark-cache': 'hit; mark=7; age=3; stale=false' },
      { cache: 'hit', mark: 7, age: 3, isExact: true },
    ],
    [
      { 'x-tidemark-cache': 'hit; mark=7; age=3; stale=true' },
      { cache: 'hit', mark: 7, age: 3, isExact: false },
    ],
    [{ 'x-tidemark-cache': 'bypass' }, { cache: 'bypass', mark: null, age: null, isExact: true }],
    [{ 'x-tidemark-cache': 'nonsense' }, null],
    [
      { 'x-tidemark-cache': 'hit; mark; age=x' },
      { cache: 'hit', mark: null, age: null, isExact: true },
    ],
  ];
  for (const [headers, fresh] of cases) {
    const wanted = fresh === null ? null : { erased: false, ...fresh };
    assert.deepEqual(freshness(new Headers(headers)), wanted);
  }
});
