// Every scalar column kind: what its definition answers, what it takes, what it refuses.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ID } from 'node-appwrite';
import { refused, Server } from './server.js';

const INT64_MIN = -9223372036854775808n;
const INT64_MAX = 9223372036854775807n;

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
});
after(() => server.close());

function makeTable(columns, indexes = []) {
  return db.createTable({ databaseId: 'd', tableId: ID.unique(), name: 'T', columns, indexes });
}

/** What each kind's definition answers, apart from the fields that all kinds share. */
const shapes = [
  [{ type: 'varchar', size: 64 }, { type: 'varchar', size: 64, default: null, encrypt: false }],
  [{ type: 'string', size: 300 }, { type: 'string', size: 300, default: null, encrypt: false }],
  [{ type: 'text' }, { type: 'text', default: null, encrypt: false }],
  [{ type: 'text', encrypt: true }, { type: 'text', default: null, encrypt: true }],
  [{ type: 'mediumtext' }, { type: 'mediumtext', default: null, encrypt: false }],
  [{ type: 'longtext' }, { type: 'longtext', default: null, encrypt: false }],
  [{ type: 'integer', min: -5, max: 5 }, { type: 'integer', min: -5, max: 5, default: null }],
  [{ type: 'integer' }, { type: 'integer', min: INT64_MIN, max: INT64_MAX, default: null }],
  [{ type: 'bigint', min: 1, max: 9 }, { type: 'bigint', min: 1, max: 9, default: null }],
  [{ type: 'bigint' }, { type: 'bigint', min: INT64_MIN, max: INT64_MAX, default: null }],
  [{ type: 'double', min: -0.5, max: 0.5 }, { type: 'double', min: -0.5, max: 0.5, default: null }],
  [
    { type: 'float' },
    { type: 'double', min: -Number.MAX_VALUE, max: Number.MAX_VALUE, default: null },
  ],
  [{ type: 'boolean', default: true }, { type: 'boolean', default: true }],
  [{ type: 'email' }, { type: 'string', format: 'email', default: null }],
  [{ type: 'url' }, { type: 'string', format: 'url', default: null }],
  [{ type: 'ip' }, { type: 'string', format: 'ip', default: null }],
  [
    { type: 'enum', elements: ['a', 'b'], default: 'b' },
    { type: 'string', format: 'enum', elements: ['a', 'b'], default: 'b' },
  ],
  [
    { type: 'string', size: 255, format: 'enum', elements: ['a'] },
    { type: 'string', format: 'enum', elements: ['a'], default: null },
  ],
  [{ type: 'datetime' }, { type: 'datetime', default: null }],
  [
    { type: 'varchar', size: 8, default: 'x' },
    { type: 'varchar', size: 8, default: 'x', encrypt: false },
  ],
];

describe('definitions', () => {
  for (const [definition, shape] of shapes) {
    test(`${JSON.stringify(definition)} comes back whole`, async () => {
      const { columns } = await makeTable([{ key: 'k', required: false, ...definition }]);
      assert.equal(columns.length, 1);
      const shared = {
        key: 'k',
        description: '',
        status: 'available',
        error: '',
        required: false,
        array: false,
      };
      const wanted = { ...shared, ...shape };
      const got = Object.fromEntries(Object.keys(wanted).map((key) => [key, columns[0][key]]));
      assert.deepEqual(got, wanted);
      assert.equal(typeof columns[0].$createdAt, 'string');
      assert.equal(typeof columns[0].$updatedAt, 'string');
      if (shape.type === 'datetime') assert.equal(typeof columns[0].format, 'string');
    });
  }

  test('required and array are kept', async () => {
    const { columns } = await makeTable([
      { key: 'must', type: 'integer', required: true },
      { key: 'many', type: 'varchar', size: 9, required: false, array: true },
    ]);
    const flags = columns.map(({ key, required, array }) => [key, required, array]);
    assert.deepEqual(flags, [
      ['must', true, false],
      ['many', false, true],
    ]);
  });
});

const INVALID = [400, 'column_value_invalid'];
const ARGUMENT = [400, 'general_argument_invalid'];

const k = (definition) => [{ key: 'k', required: false, ...definition }];
const abc = [
  { key: 'a', type: 'varchar', size: 1000, required: false },
  { key: 'b', type: 'integer', required: false },
  { key: 'tags', type: 'varchar', size: 20, required: false, array: true },
];
const index = (definition) => [{ key: 'i', type: 'key', ...definition }];

describe('refused definitions leave no table behind', () => {
  for (const [what, columns, code, type, indexes = []] of [
    ['an unknown kind', k({ type: 'colour' }), ...ARGUMENT],
    ['no kind', k({}), ...ARGUMENT],
    ['no key', [{ type: 'integer', required: false }], ...ARGUMENT],
    ['a key with a space', [{ key: 'a b', type: 'integer' }], ...ARGUMENT],
    ['a relationship', k({ type: 'relationship' }), ...ARGUMENT],
    ['varchar without size', k({ type: 'varchar' }), ...ARGUMENT],
    ['varchar of size 0', k({ type: 'varchar', size: 0 }), ...ARGUMENT],
    ['varchar of size 16382', k({ type: 'varchar', size: 16_382 }), ...ARGUMENT],
    ['enum without elements', k({ type: 'enum' }), ...ARGUMENT],
    ['a required default', k({ type: 'integer', required: true, default: 1 }), 400, 'column_default_unsupported'],
    ['an array default', k({ type: 'integer', array: true, default: 1 }), 400, 'column_default_unsupported'],
    ['min above max', k({ type: 'integer', min: 2, max: 1 }), ...INVALID],
    ['float min above max', k({ type: 'double', min: 2, max: 1 }), ...INVALID],
    ['a default above max', k({ type: 'integer', max: 5, default: 6 }), ...INVALID],
    ['a default that is too long', k({ type: 'varchar', size: 2, default: 'abc' }), ...INVALID],
    ['a default out of elements', k({ type: 'enum', elements: ['a'], default: 'b' }), ...INVALID],
    ['keys equal but for case', [...k({ type: 'integer' }), { key: 'K', type: 'text' }], 409, 'column_already_exists'],
    ['an index on no such column', abc, 400, 'column_unknown', index({ attributes: ['z'] })],
    ['an index on an array', abc, 400, 'index_invalid', index({ attributes: ['tags'] })],
    ['a column twice in an index', abc, 400, 'column_index_invalid', index({ attributes: ['b', 'b'] })],
    ['an index key over 768', abc, 400, 'column_index_invalid', index({ attributes: ['a'] })],
    ['a length on a number', abc, 400, 'column_index_invalid', index({ attributes: ['b'], lengths: [5] })],
    ['fewer orders than columns', abc, 400, 'column_index_invalid', index({ attributes: ['b', '$id'], orders: ['ASC'] })],
    ['an unknown index kind', abc, ...ARGUMENT, index({ type: 'hash', attributes: ['b'] })],
    ['an index key used twice', abc, 409, 'column_index_already_exists', [...index({ attributes: ['b'] }), ...index({ attributes: ['b'] })]],
  ]) {
    test(`${what}: ${code} ${type}`, async () => {
      const tableId = ID.unique();
      const call = db.createTable({ databaseId: 'd', tableId, name: 'T', columns, indexes });
      await refused(call, code, type);
      await refused(db.getTable({ databaseId: 'd', tableId }), 404, 'table_not_found');
    });
  }

  test('101 columns in one call are refused, 100 taken', async () => {
    const columns = Array.from({ length: 101 }, (_, n) => ({ key: `c${n}`, type: 'boolean' }));
    await refused(makeTable(columns), ...ARGUMENT);
    assert.equal((await makeTable(columns.slice(1))).columns.length, 100);
  });

  test('a long column is indexed by a prefix', async () => {
    const byPrefix = index({ attributes: ['a', 'b'], lengths: [100, null] });
    const { indexes } = await makeTable(abc, byPrefix);
    assert.equal(indexes[0].lengths[0], 100);
  });
});

/** Per kind: [value sent, value read back] pairs, then values refused. */
const values = [
  [
    { type: 'varchar', size: 4 },
    [['', ''], ['abcd', 'abcd'], ['äöüß', 'äöüß'], ['😀😀😀😀', '😀😀😀😀'], ['"\\\n', '"\\\n'], [null, null]],
    ['abcde', 4, true, ['a'], { a: 1 }, 'a\u0000b'],
  ],
  [{ type: 'string', size: 2 }, [['ab', 'ab']], ['abc']],
  [{ type: 'text' }, [['x'.repeat(65_535), 'x'.repeat(65_535)]], ['x'.repeat(65_536), 1]],
  [{ type: 'mediumtext' }, [['x'.repeat(70_000), 'x'.repeat(70_000)]], [1]],
  [{ type: 'longtext' }, [['x'.repeat(70_000), 'x'.repeat(70_000)]], [false]],
  [
    { type: 'integer', min: -3, max: 7 },
    [[-3, -3], [0, 0], [7, 7], [null, null]],
    [-4, 8, 1.5, '5', true, [1]],
  ],
  [
    { type: 'integer' },
    [
      [INT64_MAX, INT64_MAX],
      [INT64_MIN, INT64_MIN],
      [9007199254740993n, 9007199254740993n],
      [-9007199254740993n, -9007199254740993n],
    ],
    [INT64_MAX + 1n, INT64_MIN - 1n, 12345678901234567890n],
  ],
  [{ type: 'integer', max: 2147483647 }, [[-2147483648, -2147483648]], [-2147483649, 2147483648]],
  [{ type: 'bigint' }, [[INT64_MAX, INT64_MAX], [5, 5]], [INT64_MAX + 1n, 0.5, '5']],
  [
    { type: 'double', min: -1, max: 1000 },
    [[0.1, 0.1], [-1, -1], [1000, 1000], [999, 999], [1e-7, 1e-7], [491.6, 491.6]],
    [-1.0001, 1000.5, '1', true],
  ],
  [{ type: 'boolean' }, [[true, true], [false, false], [null, null]], ['true', 1, 0]],
  [
    { type: 'email' },
    [['a@example.com', 'a@example.com'], ['first.last+tag@mail.example.org', 'first.last+tag@mail.example.org']],
    ['a', 'a@', '@example.com', 'a b@example.com', 5, `${'a'.repeat(250)}@example.com`],
  ],
  [
    { type: 'url' },
    [['https://example.com', 'https://example.com'], ['http://example.com:8080/a?b=c#d', 'http://example.com:8080/a?b=c#d']],
    ['example.com', 'not a url', '', 5, `https://example.com/${'a'.repeat(2000)}`],
  ],
  [
    { type: 'ip' },
    [['127.0.0.1', '127.0.0.1'], ['::1', '::1'], ['2001:db8::ff00:42:8329', '2001:db8::ff00:42:8329']],
    ['256.0.0.1', '1.2.3', '1.2.3.4.5', 'localhost', '', 4],
  ],
  [{ type: 'enum', elements: ['low', 'high'] }, [['low', 'low']], ['LOW', 'mid', '', 1]],
  [
    { type: 'datetime' },
    [
      ['2024-02-29T12:34:56.789+00:00', '2024-02-29T12:34:56.789+00:00'],
      ['2024-02-29T12:34:56Z', '2024-02-29T12:34:56.000+00:00'],
      ['2024-02-29T12:34:56.7891234Z', '2024-02-29T12:34:56.789+00:00'],
      ['2024-03-01T01:30:00+02:00', '2024-02-29T23:30:00.000+00:00'],
      ['2023-12-31T22:00:00-03:30', '2024-01-01T01:30:00.000+00:00'],
      ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000+00:00'],
      ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999+00:00'],
      [null, null],
    ],
    ['tomorrow', '2024-02-30T00:00:00Z', '2024-13-01T00:00:00Z', '10000-01-01T00:00:00Z', 5, ''],
  ],
  [
    { type: 'varchar', size: 3, array: true },
    [[[], []], [['a', 'bcd', 'a'], ['a', 'bcd', 'a']], [null, []]],
    [['abcd'], 'a', [1], [['a']], {}],
  ],
  [{ type: 'integer', array: true }, [[[3, 1, 2], [3, 1, 2]]], [['1'], [1.5], 1]],
];

const brief = (value) => {
  const text = typeof value === 'bigint' ? `${value}n` : JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 20)}… (${text.length})` : text;
};

for (const [definition, taken, denied] of values) {
  const { type, array, size, min, max } = definition;
  const bounds = [size, min, max].filter((bound) => bound !== undefined).join('..');
  describe(`${type}${array ? '[]' : ''} ${bounds}`, () => {
    let tableId;
    before(async () => {
      tableId = (await makeTable(k(definition))).$id;
    });
    const create = (value) =>
      db.createRow({ databaseId: 'd', tableId, rowId: ID.unique(), data: { k: value } });

    for (const [sent, read] of taken) {
      test(`takes ${brief(sent)}`, async () => {
        const made = await create(sent);
        assert.deepEqual(made.k, read);
        const got = await db.getRow({ databaseId: 'd', tableId, rowId: made.$id });
        assert.deepEqual(got.k, read);
      });
    }
    for (const sent of denied) {
      test(`refuses ${brief(sent)}`, async () => {
        const error = await refused(create(sent), 400, 'row_invalid_structure');
        assert.match(error.message, /^Invalid document structure: /);
      });
    }
    test('lists back what was taken', async () => {
      const { rows } = await db.listRows({ databaseId: 'd', tableId });
      assert.deepEqual(rows.map((row) => row.k), taken.map(([, read]) => read));
    });
  });
}
