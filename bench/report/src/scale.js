// From a measured run to another number of requests, and the truth about which is which.

/** The slider's ends: a thousand and ten billion requests. */
const LEAST = 1_000;
const GREATEST = 10_000_000_000;
/** The slider's places. */
export const PLACES = 600;
const DECADES = Math.log10(GREATEST / LEAST);

/** Three leading digits, so that the slider stops at numbers that can be said. */
function rounded(number) {
  const unit = 10 ** (Math.floor(Math.log10(number)) - 2);
  return Math.round(number / unit) * unit;
}

/** Requests at a place of the slider; `measured` where that is the nearest place to it. */
export function requestsAt(place, measured) {
  if (place === placeOf(measured)) return measured;
  return rounded(LEAST * 10 ** ((place / PLACES) * DECADES));
}

/** The nearest place of the slider. */
export function placeOf(number) {
  const place = Math.round((Math.log10(number / LEAST) / DECADES) * PLACES);
  return Math.min(Math.max(place, 0), PLACES);
}

/** Requests a second of a series; null where it was not told. */
export const rateOf = ({ count, wall_ms: wall }) => (count && wall ? (count * 1000) / wall : null);

/**
 * What `number` requests take a series, in seconds: its own wall time when that is how many it
 * did, in proportion otherwise. Null where it has none.
 * @returns {{seconds: number, kind: 'measured' | 'extrapolated' | 'quoted'} | null}
 */
export function wallOf(series, number) {
  const perSecond = rateOf(series);
  if (perSecond === null) return null;
  const isOwn = number === series.count;
  const own = series.source === 'quoted' ? 'quoted' : 'measured';
  return {
    seconds: isOwn ? series.wall_ms / 1000 : number / perSecond,
    kind: isOwn ? own : 'extrapolated',
  };
}

/** How a number came about, in words. */
export function explain(series, number) {
  const { count, source } = series;
  const own = source === 'quoted' ? 'quoted' : 'measured';
  if (number === count) return own;
  const factor = number / count;
  const how = factor >= 1 ? `× ${short(factor)}` : `÷ ${short(1 / factor)}`;
  return `extrapolated ${how} from ${own} ${count.toLocaleString('en-US')}`;
}

const short = (factor) =>
  factor >= 100
    ? Math.round(factor).toLocaleString('en-US')
    : String(Number(factor.toPrecision(3)));

/** Seconds in a month of 365.25 / 12 days. */
const MONTH_S = (365.25 / 12) * 86_400;

/**
 * Prices of a series on a server of so much a month, at full load: of a billion requests; as the
 * published test reckons it, of one request a second kept up all month; and the requests that one
 * unit of the currency buys, null where the server costs nothing.
 */
export function priceOf(perSecond, monthly) {
  if (!perSecond) return null;
  const perMonth = perSecond * MONTH_S;
  return {
    billion: (monthly * 1e9) / perMonth,
    perRate: monthly / perSecond,
    perUnit: monthly > 0 ? perMonth / monthly : null,
  };
}
