import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode, encode, LETTERS, PRECISION } from './codes.js';

test('a time comes back within half a step of the scale', () => {
  for (let us = 0.1; us < 9e8; us *= 1.13) {
    const [back] = decode(encode([us]));
    assert.ok(Math.abs(back / us - 1) < PRECISION * 1.001, `${us} came back as ${back}`);
  }
  assert.ok(PRECISION < 0.0016);
});

test('words are those that Rust writes', () => {
  assert.equal(encode([0, 1, 75, 1_234, 1_000_000, 5_000_000_000]), '!!,e?#IYdv~~');
});

test('no letter means anything to HTML or JSON', () => {
  assert.equal(LETTERS.length, 87);
  assert.equal(JSON.stringify(LETTERS), `"${LETTERS}"`);
  assert.doesNotMatch(LETTERS, /[<>&'"`\\ ]/);
});

test('other text is refused', () => {
  assert.throws(() => decode('!<'), RangeError);
});
