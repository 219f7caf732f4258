import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readAddress, withChoices } from './address.js';

test('choices are read back from the address they were written to', () => {
  const choices = { group: 'list', reference: 'uncached', pins: ['exact p99', 'ttl p99.9'] };
  assert.deepEqual(readAddress(withChoices('', choices)), choices);
});

test('a choice replaces the former one and leaves the others', () => {
  const before = withChoices('?other=1', { group: 'list', pins: ['exact p50'] });
  assert.equal(withChoices(before, { pins: [] }), '?other=1&group=list');
  assert.equal(withChoices('?pins=exact+p50', { pins: [] }), '');
});

test('an address without choices has none', () => {
  assert.deepEqual(readAddress(''), { group: null, reference: null, pins: [] });
  assert.deepEqual(readAddress('?pins=,,'), { group: null, reference: null, pins: [] });
});
