import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, readBench, readConnection, readSetup } from './config.js';

const COMPLETE = {
  APPWRITE_ENDPOINT: 'http://127.0.0.1:8280/v1/',
  APPWRITE_PROJECT_ID: 'p',
  APPWRITE_API_KEY: 'k',
};

const refusals = [
  ['all missing', () => readConnection({}), /_ENDPOINT:[\s\S]*_PROJECT_ID:[\s\S]*_API_KEY:/],
  ['an empty key', () => readConnection({ ...COMPLETE, APPWRITE_API_KEY: '' }), /\n {2}APPWRITE_A/],
  ['no scheme', () => readConnection({ ...COMPLETE, APPWRITE_ENDPOINT: 'host' }), /not host/],
  ['no iterations', () => readBench({ ITERATIONS: '0' }), /ITERATIONS.*at least 1, not "0"/],
  ['a fraction', () => readBench({ WARMUP: '1.5' }), /WARMUP/],
  ['more rounds than calls', () => readBench({ ITERATIONS: '2', ROUNDS: '3' }), /must not exceed/],
  ['no rows', () => readSetup(['--rows', '0'], {}), /ROWS/],
];
for (const [what, read, message] of refusals) {
  test(`${what}: refused by name`, () => {
    assert.throws(read, (error) => error instanceof ConfigError && message.test(error.message));
  });
}

test('defaults are the published workload', () => {
  const { iterations, rounds, warmup, rowCount, binary } = readBench({});
  assert.deepEqual(
    { iterations, rounds, warmup, rowCount, binary },
    { iterations: 100_000, rounds: 1, warmup: 200, rowCount: 10_000, binary: null },
  );
  assert.deepEqual(readSetup([], {}), { rowCount: 10_000, indexed: false });
});

test('a trailing slash of the endpoint is dropped; flags go before the environment', () => {
  assert.equal(readConnection(COMPLETE).endpoint, 'http://127.0.0.1:8280/v1');
  const wanted = { rowCount: 7, indexed: true };
  assert.deepEqual(readSetup(['--index', '--rows', '7'], { ROWS: '9' }), wanted);
  assert.deepEqual(readSetup([], { ROWS: '7', INDEX: '1' }), wanted);
});
