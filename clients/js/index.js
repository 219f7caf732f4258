// Queries at other times, as the JSON texts that `queries` of the official SDKs takes, and what
// else of time the SDKs have no words for.

/** @import * as Api from './index.js' */

const YEAR_MAX = 9999;
const MICROS_MIN = -62_167_219_200_000_000n;
const MICROS_MAX = 253_402_300_799_999_999n;
/** Numbers between these are milliseconds of our days far more often than microseconds of 1970. */
const LIKE_MILLISECONDS = { from: 1e11, to: 1e14 };

const DATE = /^(\d{4})-(\d\d)-(\d\d)/;
const CLOCK = /^[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?/;
const ZONE = /^(?:[Zz]|[+-](\d\d)(?::?(\d\d))?)?$/;

/** @type {typeof Api.asOf} */
export const asOf = (instant) => query('asOf', [wire(instant, 'asOf')]);

/** @type {typeof Api.validAt} */
export const validAt = (instant) => query('validAt', [wire(instant, 'validAt')]);

/** @type {typeof Api.validBetween} */
export const validBetween = (begin, end = null) =>
  query('validBetween', [
    wire(begin, 'the beginning of validBetween'),
    end === null ? 'null' : wire(end, 'the end of validBetween'),
  ]);

/** @type {typeof Api.versions} */
export const versions = () => query('versions', []);

/** @type {typeof Api.freshness} */
export function freshness(headers) {
  const cached = headers.get('x-tidemark-cache');
  const stated = headers.get('x-tidemark-mark');
  const erased = headers.get('x-tidemark-erased') === 'true';
  if (cached === null) {
    if (stated === null && !erased) return null;
    const mark = stated === null ? null : Number(stated);
    return { cache: null, mark, age: null, isExact: true, erased };
  }
  const [cache, ...parts] = cached.split(';').map((part) => part.trim());
  if (cache !== 'hit' && cache !== 'miss' && cache !== 'bypass') return null;
  const named = new Map(parts.map((part) => /** @type {[string, string]} */ (part.split('='))));
  const number = (/** @type {string} */ name) => {
    const text = named.get(name) ?? '';
    return /^\d+$/.test(text) ? Number(text) : null;
  };
  // Without a `ttl` the part is absent, because the answer is exact then.
  const isExact = named.get('stale') !== 'true';
  return { cache, mark: number('mark'), age: number('age'), isExact, erased };
}

/** @type {typeof Api.undo} */
export function undo(client, { databaseId, commitMeta, idempotencyKey, ...which }) {
  const { endpoint, project } = client.config;
  // Every runtime has it, and no declaration is there for all of them.
  const { URL } = /** @type {any} */ (globalThis);
  const url = new URL(`${endpoint}/tidemark/databases/${encodeURIComponent(databaseId)}/undo`);
  const headers = {
    'content-type': 'application/json',
    'x-appwrite-project': project,
    ...(commitMeta === undefined ? {} : { 'x-tidemark-meta': ascii(JSON.stringify(commitMeta)) }),
    ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
  };
  const { after, until } = which;
  const times = {
    after: iso(after, '`after` of undo'),
    ...(until === undefined ? {} : { until: iso(until, '`until` of undo') }),
  };
  return client.call('post', url, headers, { ...which, ...times });
}

/**
 * An instant as a text: JSON.stringify knows no bigint, and numbers of far years are not exact.
 * @param {Api.Instant} instant
 * @param {string} what
 */
function iso(instant, what) {
  const text = wire(instant, what);
  if (text.startsWith('"')) return text.slice(1, -1);
  const micros = BigInt(text);
  const rest = ((micros % 1000n) + 1000n) % 1000n;
  const upToMillis = new Date(Number((micros - rest) / 1000n)).toISOString().slice(0, -1);
  return `${upToMillis}${String(rest).padStart(3, '0')}Z`;
}

/**
 * Text for a header, where nothing but visible ASCII is allowed; JSON reads the escapes.
 * @param {string} text
 */
const ascii = (text) =>
  text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/**
 * A query, from values that are JSON texts already: JSON.stringify knows no bigint.
 * @param {string} method
 * @param {string[]} values
 */
const query = (method, values) => `{"method":"${method}","values":[${values.join(',')}]}`;

/**
 * An instant as JSON.
 * @param {Api.Instant} instant
 * @param {string} what
 */
function wire(instant, what) {
  if (isDate(instant)) return ofDate(instant, what);
  switch (typeof instant) {
    case 'string':
      return ofText(instant, what);
    case 'bigint':
      return ofMicros(instant, what);
    case 'number':
      return ofNumber(instant, what);
    default: {
      const kind = instant === null ? 'null' : typeof instant;
      throw new TypeError(
        `${what} takes a Date, an ISO 8601 text or microseconds since 1970, not ${kind}`,
      );
    }
  }
}

/**
 * Also one of another realm, as test runners and frames make them, where `instanceof` is false.
 * @param {unknown} value
 * @returns {value is Date}
 */
const isDate = (value) => Object.prototype.toString.call(value) === '[object Date]';

/** @param {Date} date @param {string} what */
function ofDate(date, what) {
  const year = date.getUTCFullYear();
  if (Number.isNaN(year)) throw new RangeError(`${what}: the Date is invalid`);
  if (year < 0 || year > YEAR_MAX) throw outside(what, `a Date of the year ${year}`);
  return `"${date.toISOString()}"`;
}

/** @param {bigint} micros @param {string} what */
function ofMicros(micros, what) {
  if (micros < MICROS_MIN || micros > MICROS_MAX) throw outside(what, `${micros} microseconds`);
  return String(micros);
}

/** @param {number} micros @param {string} what */
function ofNumber(micros, what) {
  if (!Number.isSafeInteger(micros)) {
    const isLarge = Number.isInteger(micros);
    const why = isLarge ? 'is too large to be exact, send a bigint' : 'is no whole number';
    throw new RangeError(`${what}: ${micros} ${why}; a number is microseconds since 1970`);
  }
  const size = Math.abs(micros);
  if (size > LIKE_MILLISECONDS.from && size < LIKE_MILLISECONDS.to) {
    throw new RangeError(
      `${what}: ${micros} microseconds lie around 1970. If these are milliseconds, send ` +
        `new Date(${micros}); if not, send ${micros}n`,
    );
  }
  return ofMicros(BigInt(micros), what);
}

/** @param {string} text @param {string} what */
function ofText(text, what) {
  if (text === 'min') return '"min"';
  const isDigits = /^-?\d+$/.test(text);
  if (isDigits) {
    throw new RangeError(
      `${what}: "${cut(text)}" could be a year or microseconds; ` +
        `send "${text.slice(0, 4)}-01-01", or a number`,
    );
  }
  if (!isIso(text)) {
    throw new RangeError(
      `${what}: "${cut(text)}" is no date or time, such as "2026-05-01" or "2026-05-01T12:00:00Z"`,
    );
  }
  return `"${text}"`;
}

/**
 * Whether the server reads it: a date, or a date and time, that the calendar has.
 * @param {string} text
 */
function isIso(text) {
  const date = DATE.exec(text);
  if (date === null) return false;
  const [, year, month, day] = date.map(Number);
  // The Date of a day that the month has not is one of another month.
  const noon = new Date(0);
  noon.setUTCFullYear(year, month - 1, day);
  if (noon.getUTCMonth() !== month - 1 || noon.getUTCDate() !== day) return false;
  const behind = text.slice(date[0].length);
  if (behind === '') return true;
  const clock = CLOCK.exec(behind);
  if (clock === null) return false;
  const [, hour, minute, second = '0'] = clock;
  const zone = ZONE.exec(behind.slice(clock[0].length));
  if (zone === null) return false;
  const isTime = Number(hour) <= 23 && Number(minute) <= 59 && Number(second) <= 60;
  return isTime && Number(zone[1] ?? 0) <= 23 && Number(zone[2] ?? 0) <= 59;
}

/** @param {string} text */
const cut = (text) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

/** @param {string} what @param {string} given */
const outside = (what, given) =>
  new RangeError(`${what}: an instant lies in the years 0000 to 9999, not at ${given}`);
