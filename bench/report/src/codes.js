// Samples as text: two characters each, on a logarithmic scale. Rust has the same table
// (bench/scenarios/src/codes.rs); a test of each reads the other's words.

/** Printable ASCII but `"&'<>\` and the backtick: nothing that HTML or JSON would escape. */
export const LETTERS = Array.from({ length: 94 }, (_, place) => String.fromCharCode(33 + place))
  .filter((letter) => !'"&\'<>\\`'.includes(letter))
  .join('');

/** The shortest time that can be told, in microseconds. */
const LEAST_US = 0.1;
/** Ten decades, from 100 ns to 1,000 s. */
const DECADES = 10;
const GREATEST = LETTERS.length ** 2 - 1;

/** A decoded sample is the measured one within this share of it: half a step of the scale. */
export const PRECISION = 10 ** (DECADES / GREATEST / 2) - 1;

/** The code of a time in microseconds; what lies outside the scale goes to its end. */
function codeOf(us) {
  const place = Math.round((Math.log10(us / LEAST_US) / DECADES) * GREATEST);
  return Math.min(Math.max(place, 0), GREATEST) || 0;
}

/** Times in microseconds as text. */
export function encode(samples) {
  let text = '';
  for (const us of samples) {
    const code = codeOf(us);
    text += LETTERS[Math.floor(code / LETTERS.length)] + LETTERS[code % LETTERS.length];
  }
  return text;
}

/**
 * Text as times in microseconds.
 * @throws RangeError at a letter that no code has
 */
export function decode(text) {
  const places = new Map([...LETTERS].map((letter, place) => [letter, place]));
  const times = Array.from(
    { length: GREATEST + 1 },
    (_, code) => LEAST_US * 10 ** ((code * DECADES) / GREATEST),
  );
  const samples = new Float64Array(text.length >> 1);
  for (let at = 0; at < samples.length; at += 1) {
    const code = places.get(text[2 * at]) * LETTERS.length + places.get(text[2 * at + 1]);
    if (!(code >= 0)) throw new RangeError(`no code: ${text.slice(2 * at, 2 * at + 2)}`);
    samples[at] = times[code];
  }
  return samples;
}
