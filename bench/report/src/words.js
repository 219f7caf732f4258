// Numbers as people read them. One way for each kind, so that the page never writes one twice.

const NUMBER = new Intl.NumberFormat('en-US');

/** `20,000` */
export const count = (value) => NUMBER.format(Math.round(value));

/** Three digits that matter. */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 100) return count(value);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** A latency: `0.30 µs`, `75.2 µs`, `1.23 ms`, `2.10 s`. */
export function latency(us) {
  if (us === null || us === undefined) return '–';
  if (us < 1_000) return `${digits(us)} µs`;
  if (us < 1_000_000) return `${digits(us / 1_000)} ms`;
  return `${digits(us / 1_000_000)} s`;
}

const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
const YEAR_S = 365.25 * DAY_S;

const UNITS = [
  [YEAR_S, 'y', DAY_S, 'd'],
  [DAY_S, 'd', HOUR_S, 'h'],
  [HOUR_S, 'h', MINUTE_S, 'min'],
  [MINUTE_S, 'min', 1, 's'],
];

/** A span of time from a fraction of a second to years: its two greatest units. */
export function span(seconds) {
  if (seconds < 1) return latency(seconds * 1e6);
  if (seconds < MINUTE_S) return `${digits(seconds)} s`;
  const unitOf = (length) => UNITS.find(([size]) => length >= size);
  const [, , step] = unitOf(seconds);
  // 59 minutes and 59.6 seconds are an hour.
  const rounded = Math.round(seconds / step) * step;
  const [large, name, small, rest] = unitOf(rounded);
  const whole = Math.floor(rounded / large);
  const left = Math.round((rounded - whole * large) / small);
  return left > 0 ? `${count(whole)} ${name} ${left} ${rest}` : `${count(whole)} ${name}`;
}

/** Requests a second. */
export const rate = (perSecond) =>
  perSecond === null || perSecond === undefined ? '–' : `${digits(perSecond)}/s`;

/** A ratio: `12.3×` */
export const times = (value) => (Number.isFinite(value) ? `${digits(value)}×` : '–');

/** An amount of money; a small one with three digits that matter, never as a power of ten. */
export function money(amount, currency) {
  if (amount === null || !Number.isFinite(amount)) return '–';
  if (amount >= 1_000) return `${count(amount)} ${currency}`;
  if (amount >= 1 || amount === 0) return `${amount.toFixed(2)} ${currency}`;
  const places = Math.min(2 - Math.floor(Math.log10(amount)), 12);
  return `${amount.toFixed(places)} ${currency}`;
}

/** A number of requests in words: `20,000`, `1 million`, `2.5 billion`. */
export function requests(value) {
  for (const [size, word] of [
    [1e9, 'billion'],
    [1e6, 'million'],
  ]) {
    if (value >= size) return `${Number((value / size).toFixed(2))} ${word}`;
  }
  return count(value);
}

/** `body_bytes` as `body bytes`. */
export const label = (key) => key.replaceAll('_', ' ');

/** A parameter's value. */
export function value(any) {
  if (typeof any === 'boolean') return any ? 'yes' : 'no';
  if (typeof any === 'number') return any.toLocaleString('en-US', { maximumFractionDigits: 9 });
  if (any === null || any === undefined) return '–';
  return typeof any === 'object' ? JSON.stringify(any) : String(any);
}

const LONG_NUMBERS = /(?<![\w.,-])(?:\d{5,}(?![\w-])|\d{4,}(?=\/s| (?:ms|µs|ns|rows)\b))/g;

/** Groups the digits of a text's long numbers; dates and names keep theirs. */
export const grouped = (text) => text.replace(LONG_NUMBERS, (digits) => count(Number(digits)));
