// A collection as older apps build it: empty, then attribute by attribute, then indexes.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { IndexType, Query } from 'node-appwrite';
import { refused, start } from './start.js';

const POLL_MS = 20;
const POLLS_MAX = 500;

let server;
let databases;
before(async () => {
  ({ server, databases } = await start());
  await databases.create('d', 'D');
  await databases.createCollection('d', 'c', 'C', ['read("any")'], false);
});
after(() => server?.close());

/** Asks until what `read` gives is available, as the SDK's own examples do. */
async function available(read) {
  for (let polls = 0; polls < POLLS_MAX; polls += 1) {
    const one = await read();
    if (one.status === 'available') return one;
    assert.equal(one.status, 'processing', one.error);
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
  throw new Error('it does not become available');
}

const attribute = (key) => available(() => databases.getAttribute('d', 'c', key));
const index = (key) => available(() => databases.getIndex('d', 'c', key));

// Creation, what a read of the attribute shows, and a value that a document then holds.
const KINDS = {
  text: [
    (key) => databases.createStringAttribute('d', 'c', key, 64, false, 'a'),
    { type: 'string', size: 64, default: 'a', array: false, required: false },
    'é 😀',
  ],
  names: [
    (key) => databases.createStringAttribute('d', 'c', key, 9, false, undefined, true),
    { type: 'string', size: 9, array: true },
    ['x', 'y'],
  ],
  count: [
    (key) => databases.createIntegerAttribute('d', 'c', key, false, 0, 1000, 7),
    { type: 'integer', min: 0, max: 1000, default: 7 },
    1000,
  ],
  part: [
    (key) => databases.createFloatAttribute('d', 'c', key, false, -1.5, 1.5),
    { type: 'double', min: -1.5, max: 1.5, default: null },
    0.25,
  ],
  open: [
    (key) => databases.createBooleanAttribute('d', 'c', key, false, true),
    { type: 'boolean', default: true },
    false,
  ],
  at: [
    (key) => databases.createDatetimeAttribute('d', 'c', key, false),
    { type: 'datetime' },
    '2026-01-31T10:00:00.000+00:00',
  ],
  mail: [
    (key) => databases.createEmailAttribute('d', 'c', key, false),
    { type: 'string', format: 'email' },
    'a@b.co',
  ],
  kind: [
    (key) => databases.createEnumAttribute('d', 'c', key, ['a', 'b'], false, 'b'),
    { type: 'string', format: 'enum', elements: ['a', 'b'], default: 'b' },
    'a',
  ],
  host: [
    (key) => databases.createIpAttribute('d', 'c', key, false),
    { type: 'string', format: 'ip' },
    '::1',
  ],
  site: [
    (key) => databases.createUrlAttribute('d', 'c', key, false),
    { type: 'string', format: 'url' },
    'https://example.com/x',
  ],
};

describe('an attribute is made and holds values:', () => {
  for (const [key, [create, shown, value]] of Object.entries(KINDS)) {
    test(key, async () => {
      const made = await create(key);
      assert.deepEqual([made.key, made.type], [key, shown.type]);
      const read = await attribute(key);
      const seen = Object.keys(shown).map((name) => [name, read[name]]);
      assert.deepEqual(Object.fromEntries(seen), shown);
      const document = await databases.createDocument('d', 'c', `of-${key}`, { [key]: value });
      assert.deepEqual(document[key], value);
      await databases.deleteDocument('d', 'c', document.$id);
    });
  }

  test('all of them are listed, and listed by kind', async () => {
    const { total, attributes } = await databases.listAttributes('d', 'c');
    assert.deepEqual([total, attributes.map((one) => one.key)], [10, Object.keys(KINDS)]);
    const booleans = await databases.listAttributes('d', 'c', [Query.equal('type', 'boolean')]);
    assert.deepEqual(booleans.attributes.map((one) => one.key), ['open']);
  });
});

test('an attribute is changed, renamed and deleted; its values go with its name', async () => {
  await databases.createStringAttribute('d', 'c', 'old', 16, false);
  await attribute('old');
  await databases.createDocument('d', 'c', 'kept', { old: 'value' });
  const changed = await databases.updateStringAttribute('d', 'c', 'old', false, 'z', 32, 'new');
  assert.deepEqual([changed.key, changed.size, changed.default], ['new', 32, 'z']);
  assert.equal((await databases.getDocument('d', 'c', 'kept')).new, 'value');
  await refused(databases.getAttribute('d', 'c', 'old'), 404, 'attribute_not_found');
  const small = databases.updateStringAttribute('d', 'c', 'new', false, null, 2);
  await refused(small, 400, 'attribute_invalid_resize');
  await databases.deleteAttribute('d', 'c', 'new');
  const document = await databases.getDocument('d', 'c', 'kept');
  assert.ok(!('new' in document));
  await databases.deleteDocument('d', 'c', 'kept');
});

test('bounds, elements and defaults are changed', async () => {
  const count = await databases.updateIntegerAttribute('d', 'c', 'count', false, 8, -5, 2000);
  assert.deepEqual([count.default, count.min, count.max], [8, -5, 2000]);
  const part = await databases.updateFloatAttribute('d', 'c', 'part', false, 0.5, -9, 9);
  assert.deepEqual([part.default, part.min, part.max], [0.5, -9, 9]);
  const kind = await databases.updateEnumAttribute('d', 'c', 'kind', ['a', 'b', 'c'], false, 'c');
  assert.deepEqual([kind.elements, kind.default], [['a', 'b', 'c'], 'c']);
  const open = await databases.updateBooleanAttribute('d', 'c', 'open', true, null);
  assert.equal(open.required, true);
  await databases.updateBooleanAttribute('d', 'c', 'open', false, null);
});

test('an index is made, obeyed and deleted', async () => {
  const [of, orders] = [['text', 'count'], ['ASC', 'DESC']];
  const made = await databases.createIndex('d', 'c', 'one', IndexType.Unique, of, orders);
  assert.deepEqual([made.key, made.type, made.attributes], ['one', 'unique', of]);
  assert.deepEqual((await index('one')).orders, orders);
  await databases.createDocument('d', 'c', 'first', { text: 'x', count: 1 });
  const second = databases.createDocument('d', 'c', 'second', { text: 'x', count: 1 });
  await refused(second, 409, 'document_unique_constraint_violation');
  await refused(databases.deleteAttribute('d', 'c', 'text'), 409, 'index_dependency');
  assert.equal((await databases.listIndexes('d', 'c')).total, 1);
  await databases.deleteIndex('d', 'c', 'one');
  await databases.createDocument('d', 'c', 'second', { text: 'x', count: 1 });
  await refused(databases.getIndex('d', 'c', 'one'), 404, 'index_not_found');
  await databases.deleteDocuments('d', 'c', [Query.equal('text', 'x')]);
});

test('many documents are put, changed and deleted in one call', async () => {
  const three = ['b1', 'b2', 'b3'].map(($id, count) => ({ $id, count }));
  assert.equal((await databases.upsertDocuments('d', 'c', three)).total, 3);
  const some = [Query.greaterThan('count', 0)];
  const changed = await databases.updateDocuments('d', 'c', { text: 'many' }, some);
  assert.deepEqual([changed.total, changed.documents[0].text], [2, 'many']);
  const gone = await databases.deleteDocuments('d', 'c', [Query.equal('text', 'many')]);
  assert.equal(gone.total, 2);
  const { documents } = await databases.listDocuments('d', 'c');
  assert.deepEqual(documents.map((one) => one.$id), ['b1']);
});

test('a number is counted up and down within bounds', async () => {
  await databases.createDocument('d', 'c', 'n', { count: 5 });
  const count = (method, ...bounds) =>
    databases[`${method}DocumentAttribute`]('d', 'c', 'n', 'count', ...bounds);
  assert.equal((await count('increment', 2, 10)).count, 7);
  assert.equal((await count('decrement')).count, 6);
  await refused(count('increment', 100, 10), 400, 'attribute_limit_exceeded');
  assert.equal((await databases.getDocument('d', 'c', 'n')).count, 6);
});

describe('a refusal in older words', () => {
  for (const [what, call, code, type] of [
    ['attribute in use', () => databases.createBooleanAttribute('d', 'c', 'OPEN', false), 409, 'attribute_already_exists'],
    ['default of a required one', () => databases.createBooleanAttribute('d', 'c', 'x', true, true), 400, 'attribute_default_unsupported'],
    ['contradicting bounds', () => databases.createIntegerAttribute('d', 'c', 'x', false, 5, 1), 400, 'attribute_value_invalid'],
    ['absent attribute', () => databases.deleteAttribute('d', 'c', 'none'), 404, 'attribute_not_found'],
    ['change by another kind', () => databases.updateUrlAttribute('d', 'c', 'open', false, null), 400, 'attribute_type_invalid'],
    ['index on nothing', () => databases.createIndex('d', 'c', 'x', IndexType.Key, ['none']), 400, 'attribute_unknown'],
    ['index on an array', () => databases.createIndex('d', 'c', 'x', IndexType.Key, ['names']), 400, 'index_invalid'],
    ['absent index', () => databases.deleteIndex('d', 'c', 'none'), 404, 'index_not_found'],
    ['counting a text', () => databases.incrementDocumentAttribute('d', 'c', 'n', 'text', 1), 400, 'attribute_type_invalid'],
  ]) {
    test(`${what}: ${code} ${type}`, () => refused(call(), code, type));
  }
});
