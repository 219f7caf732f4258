import { parseArgs } from 'node:util';

export const DATABASE_ID = 'bench_db';
export const TABLE_ID = 'products';

/** Rows of the published workload. */
export const ROW_COUNT_DEFAULT = 10_000;

/** The most rows one bulk create may carry (wire contract of createRows). */
export const ROWS_PER_CREATE_MAX = 100;

/** The `ttl` of the second phase, in seconds, as published. */
export const TTL_S = 300;

/** Rows per page of the published query. */
export const PAGE_ROWS = 25;

/** The server counts matches up to here by default, so no expected total is higher. */
export const TOTAL_CAP = 5_000;

export const INDEX = {
  key: 'by_category_review',
  type: 'key',
  // The rating comes last: the list is read in review order and tested inside the index.
  attributes: ['category', 'reviewCount', 'rating'],
  orders: ['ASC', 'DESC', 'ASC'],
};

const REQUIRED = {
  APPWRITE_ENDPOINT: 'the API endpoint, for example http://127.0.0.1:8280/v1',
  APPWRITE_PROJECT_ID: 'the project id',
  APPWRITE_API_KEY: 'the secret of an API key with databases, tables and rows scopes',
};

/** A setting is missing or malformed; the message says which and what it should be. */
export class ConfigError extends Error {
  name = 'ConfigError';
}

/**
 * Where the server is and who asks.
 * @throws ConfigError naming every variable that is missing
 */
export function readConnection(env) {
  const missing = Object.keys(REQUIRED).filter((key) => !env[key]);
  if (missing.length > 0) {
    const lines = missing.map((key) => `  ${key}: ${REQUIRED[key]}`);
    throw new ConfigError(`Set these environment variables:\n${lines.join('\n')}`);
  }
  if (!/^https?:\/\//.test(env.APPWRITE_ENDPOINT)) {
    throw new ConfigError(
      `APPWRITE_ENDPOINT must start with http:// or https://, not ${env.APPWRITE_ENDPOINT}`,
    );
  }
  return {
    endpoint: env.APPWRITE_ENDPOINT.replace(/\/+$/, ''),
    projectId: env.APPWRITE_PROJECT_ID,
    apiKey: env.APPWRITE_API_KEY,
  };
}

/**
 * A whole number from the environment.
 * @throws ConfigError when it is no whole number or below `min`
 */
export function readCount(env, key, fallback, min) {
  const text = env[key];
  if (text === undefined || text === '') return fallback;
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < min) {
    throw new ConfigError(`${key} must be a whole number of at least ${min}, not "${text}"`);
  }
  return count;
}

/** What setup should build: `--rows N` or ROWS, `--index` or INDEX=1. */
export function readSetup(args, env) {
  const { values } = parseArgs({
    args,
    options: { index: { type: 'boolean' }, rows: { type: 'string' } },
  });
  const rowCount = readCount({ ROWS: values.rows ?? env.ROWS }, 'ROWS', ROW_COUNT_DEFAULT, 1);
  return { rowCount, indexed: values.index ?? env.INDEX === '1' };
}

/** How long the benchmark runs and where its report goes. */
export function readBench(env) {
  const iterations = readCount(env, 'ITERATIONS', 100_000, 1);
  const rounds = readCount(env, 'ROUNDS', 1, 1);
  if (rounds > iterations) {
    throw new ConfigError(`ROUNDS (${rounds}) must not exceed ITERATIONS (${iterations})`);
  }
  return {
    iterations,
    rounds,
    warmup: readCount(env, 'WARMUP', 200, 0),
    rowCount: readCount(env, 'ROWS', ROW_COUNT_DEFAULT, 1),
    binary: env.TIDEMARK_BIN || null,
    resultsDir: env.RESULTS_DIR || new URL('../results/', import.meta.url).pathname,
  };
}
