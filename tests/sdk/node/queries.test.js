// Every scalar query method over rows with values and with NULLs: which ids come back, in which
// order; and every refusal of a query.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Query as Q } from 'node-appwrite';
import { listRoute, refused, Server } from './server.js';

const T = { databaseId: 'd', tableId: 'people' };

const COLUMNS = [
  { key: 'name', type: 'varchar', size: 64, required: false },
  { key: 'note', type: 'text', required: false },
  { key: 'age', type: 'integer', required: false },
  { key: 'big', type: 'bigint', required: false },
  { key: 'score', type: 'double', required: false },
  { key: 'active', type: 'boolean', required: false },
  { key: 'born', type: 'datetime', required: false },
  { key: 'mail', type: 'email', required: false },
  { key: 'level', type: 'enum', elements: ['low', 'mid', 'high'], required: false },
  { key: 'host', type: 'ip', required: false },
  { key: 'site', type: 'url', required: false },
  { key: 'tags', type: 'varchar', size: 20, array: true, required: false },
  { key: 'marks', type: 'integer', array: true, required: false },
];

/** Row `void` holds NULL everywhere; `ann` and `big-ann` differ in the case of the name only. */
const ROWS = [
  {
    $id: 'ann', name: 'Ann', note: '50% off', age: 30, big: 9007199254740993n, score: 1.5,
    active: true, born: '1990-05-01T00:00:00.000+00:00', mail: 'ann@example.com', level: 'low',
    host: '10.0.0.1', site: 'https://ann.example.com', tags: ['red', 'blue'], marks: [1, 2],
  },
  { $id: 'void' },
  {
    $id: 'big-ann', name: 'ANN', note: '50 off_', age: 40, big: -5, score: -2, active: false,
    born: '1980-01-01T12:00:00.000+00:00', mail: 'big@example.org', level: 'high',
    host: '::1', site: 'http://example.org', tags: ['blue'], marks: [3],
  },
  {
    $id: 'bo', name: 'Bo', note: 'a\\b "q" _x_', age: 30, big: 9007199254740992n, score: 3,
    active: true, born: '1990-05-01T00:00:00.001+00:00', mail: 'bo@example.com', level: 'mid',
    host: '10.0.0.2', site: 'https://bo.example.com', tags: ['green', 'red', 'blu'], marks: [2, 1],
  },
  {
    $id: 'zoe', name: 'Zoë', note: 'plain', age: -7, big: 0, score: 1.5, active: false,
    born: '2001-12-31T23:59:59.999+00:00', mail: 'zoe@example.com', level: 'low',
    host: '10.0.0.3', site: 'https://zoe.example.com', tags: [], marks: [],
  },
];

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  const indexes = [{ key: 'words', type: 'fulltext', attributes: ['note'] }];
  await db.createTable({ ...T, name: 'People', columns: COLUMNS, indexes });
  await db.createRows({ ...T, rows: ROWS });
});
after(() => server.close());

const list = (queries, extra = {}) => db.listRows({ ...T, queries, ...extra });
const raw = (method, attribute, values) => JSON.stringify({ method, attribute, values });

/** The one place that asks: ids in order, and a total that counts the same rows. */
async function check(queries, ids) {
  const { rows, total } = await list(queries);
  assert.deepEqual(rows.map((row) => row.$id).join(' '), ids);
  assert.equal(total, rows.length);
}

const BORN_ANN = '1990-05-01T00:00:00.000+00:00';

for (const [subject, cases] of Object.entries({
  equal: [
    [[Q.equal('name', 'Ann')], 'ann'],
    [[Q.equal('name', ['Bo', 'Ann', 'nobody'])], 'ann bo'],
    [[Q.equal('name', 'nobody')], ''],
    [[Q.equal('name', '')], ''],
    [[Q.equal('age', 30)], 'ann bo'],
    [[Q.equal('age', [30, -7])], 'ann bo zoe'],
    [[Q.equal('big', 9007199254740993n)], 'ann'],
    [[Q.equal('score', 3)], 'bo'],
    [[Q.equal('score', 1.5)], 'ann zoe'],
    [[Q.equal('active', true)], 'ann bo'],
    [[Q.equal('active', [true, false])], 'ann big-ann bo zoe'],
    [[Q.equal('born', BORN_ANN)], 'ann'],
    [[Q.equal('born', '1990-05-01T02:00:00+02:00')], 'ann'],
    [[Q.equal('level', 'low')], 'ann zoe'],
    [[Q.equal('host', '::1')], 'big-ann'],
    [[Q.equal('mail', 'bo@example.com')], 'bo'],
    [[Q.equal('site', 'http://example.org')], 'big-ann'],
    [[Q.equal('$id', ['zoe', 'ann'])], 'ann zoe'],
    [[Q.equal('name', Array.from({ length: 500 }, (_, n) => `n${n}`))], ''],
  ],
  notEqual: [
    [[Q.notEqual('name', 'Ann')], 'big-ann bo zoe'],
    [[Q.notEqual('name', 'nobody')], 'ann big-ann bo zoe'],
    [[Q.notEqual('age', 30)], 'big-ann zoe'],
    [[Q.notEqual('active', true)], 'big-ann zoe'],
    [[Q.notEqual('born', BORN_ANN)], 'big-ann bo zoe'],
    [[Q.notEqual('$id', 'ann')], 'void big-ann bo zoe'],
  ],
  comparisons: [
    [[Q.lessThan('age', 30)], 'zoe'],
    [[Q.lessThanEqual('age', 30)], 'ann bo zoe'],
    [[Q.greaterThan('age', 30)], 'big-ann'],
    [[Q.greaterThanEqual('age', 30)], 'ann big-ann bo'],
    [[Q.greaterThan('age', 40)], ''],
    [[Q.greaterThan('big', 9007199254740992n)], 'ann'],
    [[Q.lessThan('score', 1.5)], 'big-ann'],
    [[Q.lessThanEqual('score', 2)], 'ann big-ann zoe'],
    [[Q.greaterThan('name', 'Ann')], 'bo zoe'],
    [[Q.lessThan('name', 'Ann')], 'big-ann'],
    [[Q.greaterThan('name', 'Zoz')], 'zoe'],
    [[Q.greaterThan('born', BORN_ANN)], 'bo zoe'],
    [[Q.lessThan('born', '1990-05-01T00:00:00Z')], 'big-ann'],
    [[Q.greaterThan('age', -1000)], 'ann big-ann bo zoe'],
  ],
  'between and notBetween': [
    [[Q.between('age', 30, 40)], 'ann big-ann bo'],
    [[Q.between('age', 31, 39)], ''],
    [[Q.between('score', -2, 1.5)], 'ann big-ann zoe'],
    [[Q.between('name', 'A', 'B')], 'ann big-ann'],
    [[Q.between('born', '1990-01-01T00:00:00Z', '1990-12-31T00:00:00Z')], 'ann bo'],
    [[Q.notBetween('age', 30, 39)], 'big-ann zoe'],
    [[Q.notBetween('age', -100, 100)], ''],
    [[Q.notBetween('born', '1990-01-01T00:00:00Z', '1990-12-31T00:00:00Z')], 'big-ann zoe'],
  ],
  'isNull and isNotNull': [
    [[Q.isNull('name')], 'void'],
    [[Q.isNotNull('name')], 'ann big-ann bo zoe'],
    [[Q.isNull('age')], 'void'],
    [[Q.isNull('tags')], 'void'],
    [[Q.isNotNull('tags')], 'ann big-ann bo zoe'],
    [[Q.isNull('$id')], ''],
  ],
  'startsWith and endsWith': [
    [[Q.startsWith('name', 'An')], 'ann'],
    [[Q.startsWith('name', 'x')], ''],
    [[Q.startsWith('note', '50%')], 'ann'],
    [[Q.startsWith('note', 'a\\')], 'bo'],
    [[Q.startsWith('name', 'Zo')], 'zoe'],
    [[Q.endsWith('name', 'ë')], 'zoe'],
    [[Q.endsWith('note', 'off_')], 'big-ann'],
    [[Q.endsWith('note', 'off')], 'ann'],
    [[Q.endsWith('mail', '.org')], 'big-ann'],
    [[Q.notStartsWith('name', 'An')], 'big-ann bo zoe'],
    [[Q.notStartsWith('note', '50')], 'bo zoe'],
    [[Q.notEndsWith('name', 'nn')], 'big-ann bo zoe'],
    [[Q.notEndsWith('note', '_')], 'ann zoe'],
  ],
  'contains on strings': [
    [[Q.contains('name', 'nn')], 'ann'],
    [[Q.contains('name', ['o', 'NN'])], 'big-ann bo zoe'],
    [[Q.contains('note', '%')], 'ann'],
    [[Q.contains('note', '_')], 'big-ann bo'],
    [[Q.contains('note', '"q"')], 'bo'],
    [[Q.contains('note', 'nowhere')], ''],
    [[Q.containsAny('name', ['nn', 'Z'])], 'ann zoe'],
    [[Q.notContains('name', 'nn')], 'big-ann bo zoe'],
    [[Q.notContains('name', ['o', 'NN'])], 'ann'],
  ],
  'contains on arrays': [
    [[Q.contains('tags', 'red')], 'ann bo'],
    [[Q.contains('tags', ['green', 'blue'])], 'ann big-ann bo'],
    [[Q.contains('tags', 're')], ''],
    [[Q.contains('marks', 2)], 'ann bo'],
    [[Q.containsAny('tags', ['blu', 'none'])], 'bo'],
    [[Q.containsAny('marks', [3, 1])], 'ann big-ann bo'],
    [[Q.containsAll('tags', ['red', 'blue'])], 'ann'],
    [[Q.containsAll('tags', ['red'])], 'ann bo'],
    [[Q.containsAll('marks', [1, 2])], 'ann bo'],
    [[Q.containsAll('marks', [1, 3])], ''],
    [[Q.notContains('tags', 'red'), Q.isNotNull('tags')], 'big-ann zoe'],
    [[Q.notContains('tags', ['blue', 'green']), Q.isNotNull('tags')], 'zoe'],
  ],
  'or and and': [
    [[Q.or([Q.equal('name', 'Ann'), Q.equal('age', 40)])], 'ann big-ann'],
    [[Q.or([Q.isNull('name'), Q.equal('age', -7)])], 'void zoe'],
    [[Q.and([Q.equal('age', 30), Q.equal('score', 3)])], 'bo'],
    [[Q.equal('age', 30), Q.equal('level', 'mid')], 'bo'],
    [[Q.or([Q.and([Q.equal('age', 30), Q.equal('level', 'low')]), Q.equal('name', 'Zoë')])], 'ann zoe'],
    [[Q.and([Q.or([Q.equal('age', 30), Q.equal('age', 40)]), Q.equal('active', false)])], 'big-ann'],
    [[Q.equal('active', true), Q.or([Q.lessThan('score', 2), Q.greaterThan('score', 2)])], 'ann bo'],
  ],
  'search and notSearch': [
    [[Q.search('note', 'OFF')], 'ann big-ann'],
    [[Q.search('note', 'pla')], 'zoe'],
    [[Q.search('note', 'b plain')], 'bo zoe'],
    [[Q.search('note', 'pla b')], 'bo'],
    [[Q.search('note', '"50 off"')], 'ann big-ann'],
    [[Q.search('note', '"off 50"')], ''],
    [[Q.search('note', '%')], ''],
    [[Q.search('note', 'off'), Q.orderDesc('age')], 'big-ann ann'],
    [[Q.notSearch('note', 'off')], 'bo zoe'],
    [[Q.or([Q.search('note', 'plain'), Q.equal('age', 40)])], 'big-ann zoe'],
  ],
  regex: [
    [[Q.regex('name', '^A')], 'ann big-ann'],
    [[Q.regex('name', '(?i)^an+$')], 'ann big-ann'],
    [[Q.regex('name', '.ë')], 'zoe'],
    [[Q.regex('name', 'x')], ''],
  ],
  'system attributes': [
    [[Q.createdAfter('2001-01-01T00:00:00Z')], 'ann void big-ann bo zoe'],
    [[Q.createdBefore('2001-01-01T00:00:00Z')], ''],
    [[Q.createdBetween('2001-01-01T00:00:00Z', '2999-01-01T00:00:00Z')], 'ann void big-ann bo zoe'],
    [[Q.updatedAfter('2999-01-01T00:00:00Z')], ''],
    [[Q.updatedBefore('2999-01-01T00:00:00Z'), Q.equal('age', 40)], 'big-ann'],
    [[Q.updatedBetween('2001-01-01T00:00:00Z', '2002-01-01T00:00:00Z')], ''],
    [[Q.startsWith('$id', 'b')], 'big-ann bo'],
  ],
  order: [
    [[Q.orderAsc('age')], 'void zoe ann bo big-ann'],
    [[Q.orderDesc('age')], 'big-ann ann bo zoe void'],
    [[Q.orderAsc('name')], 'void big-ann ann bo zoe'],
    [[Q.orderDesc('name')], 'zoe bo ann big-ann void'],
    [[Q.orderAsc('age'), Q.orderDesc('score')], 'void zoe bo ann big-ann'],
    [[Q.orderDesc('active'), Q.orderAsc('name')], 'ann bo big-ann zoe void'],
    [[Q.orderDesc('born'), Q.isNotNull('born')], 'zoe bo ann big-ann'],
    [[Q.orderDesc('$sequence')], 'zoe bo big-ann void ann'],
    [[Q.orderAsc('$id')], 'ann big-ann bo void zoe'],
    [[Q.orderAsc('$createdAt')], 'ann void big-ann bo zoe'],
    [[Q.orderDesc('$createdAt')], 'zoe bo big-ann void ann'],
  ],
})) {
  describe(subject, () => {
    for (const [queries, ids] of cases) {
      const name = queries.join(' ');
      const short = name.length > 120 ? `${name.slice(0, 120)}…` : name;
      test(`${short} -> ${ids || 'none'}`, () => check(queries, ids));
    }
  });
}

test('$sequence is compared as text or as number', async () => {
  const { rows } = await list([Q.equal('$id', 'bo')]);
  const sequence = rows[0].$sequence;
  await check([Q.equal('$sequence', sequence)], 'bo');
  await check([raw('equal', '$sequence', [Number(sequence)])], 'bo');
  await check([Q.greaterThan('$sequence', sequence)], 'zoe');
});

test('orderRandom gives every row once', async () => {
  const { rows } = await list([Q.orderRandom(), Q.orderAsc('age')]);
  assert.deepEqual(rows.map((row) => row.$id).sort(), ROWS.map((row) => row.$id).sort());
});

test('the first limit and the first offset count', async () => {
  const { rows, total } = await list([Q.limit(2), Q.offset(1), Q.limit(4), Q.offset(0)]);
  assert.deepEqual([rows.map((row) => row.$id), total], [['void', 'big-ann'], 5]);
});

test('an offset beyond the end gives no rows and the whole total', async () => {
  const { rows, total } = await list([Q.offset(100)]);
  assert.deepEqual([rows, total], [[], 5]);
});

test('queries may be sent with empty brackets, and in a POST body', async () => {
  const query = Q.equal('name', 'Ann');
  const search = new URLSearchParams({ 'queries[]': query });
  const route = `/tablesdb/d/tables/people/rows`;
  for (const answer of [
    await server.ask('GET', `${route}?${search}`),
    await server.ask('POST', `${route}/query`, { body: { queries: [query] } }),
  ]) {
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json.rows.map((row) => row.$id), ['ann']);
  }
});

describe('refused queries', () => {
  const INVALID = [400, 'general_query_invalid', /^Invalid query/];
  const valueError = [400, 'general_query_invalid', /Query value is invalid for attribute/];
  const many = (count) => Array.from({ length: count }, (_, n) => `n${n}`);

  for (const [what, query, code, type, message] of [
    ['no JSON', 'name=Ann', 400, 'general_query_invalid', /^Invalid query: Syntax error$/],
    ['half a JSON', '{"method":"equal"', ...INVALID],
    ['a JSON list', '["equal"]', ...INVALID],
    ['a method that is no text', '{"method":5}', ...INVALID],
    ['no method', '{"attribute":"name"}', ...INVALID],
    ['an unknown method', raw('resembles', 'name', ['Ann']), ...INVALID],
    ['values that are no list', '{"method":"equal","attribute":"name","values":"Ann"}', ...INVALID],
    ['an unknown attribute', Q.equal('colour', 'red'), 400, 'general_query_invalid', /Attribute not found in schema: colour/],
    ['an unknown attribute to order by', Q.orderAsc('colour'), ...INVALID],
    ['no attribute', '{"method":"equal","values":[1]}', ...INVALID],
    ['permissions as a filter', Q.equal('$permissions', 'x'), ...INVALID],
    ['equal to nothing', raw('equal', 'name', []), ...INVALID],
    ['equal to null', raw('equal', 'name', [null]), ...INVALID],
    ['notEqual to two values', raw('notEqual', 'name', ['a', 'b']), ...INVALID],
    ['between one value', raw('between', 'age', [1]), ...INVALID],
    ['lessThan two values', raw('lessThan', 'age', [1, 2]), ...INVALID],
    ['startsWith on a number', Q.startsWith('age', '3'), ...INVALID],
    ['contains on a number', Q.contains('age', [3]), ...INVALID],
    ['contains on a boolean', Q.contains('active', [true]), ...INVALID],
    ['contains nothing', raw('contains', 'name', []), ...INVALID],
    ['a text for an integer', Q.equal('age', '30'), ...valueError],
    ['a fraction for an integer', Q.equal('age', 30.5), ...valueError],
    ['a text for a float', Q.equal('score', '1.5'), ...valueError],
    ['a text for a boolean', Q.equal('active', 'true'), ...valueError],
    ['a number for a boolean', Q.equal('active', 1), ...valueError],
    ['a number for a text', Q.equal('name', 5), ...valueError],
    ['no date for a datetime', Q.equal('born', 'yesterday'), ...valueError],
    ['equal on an array', Q.equal('tags', 'red'), ...INVALID],
    ['lessThan on an array', Q.lessThan('marks', 1), ...INVALID],
    ['501 values', Q.equal('name', many(501)), 400, 'general_query_invalid', /greater than 500 values/],
    ['or of one', raw('or', undefined, [{ method: 'isNull', attribute: 'name' }]), ...INVALID],
    ['or of an order', Q.or([Q.equal('name', 'a'), Q.orderAsc('name')]), ...INVALID],
    ['and of a limit', Q.and([Q.equal('name', 'a'), Q.limit(1)]), ...INVALID],
    ['limit 0', Q.limit(0), ...INVALID],
    ['limit -1', Q.limit(-1), ...INVALID],
    ['limit of a text', raw('limit', undefined, ['many']), ...INVALID],
    ['offset -1', Q.offset(-1), ...INVALID],
    ['an order without attribute', raw('orderAsc'), ...INVALID],
    ['search without a fulltext index', Q.search('name', 'ann'), 400, 'general_query_invalid', /requires a fulltext index/],
    ['notSearch without a fulltext index', Q.notSearch('name', 'ann'), ...INVALID],
    ['a regex that is none', Q.regex('name', '('), ...valueError],
    ['a regex on a number', Q.regex('age', '3'), ...INVALID],
    ['a search of 65 words', Q.search('note', 'w '.repeat(65)), ...valueError],
    ['a search on an array', Q.search('tags', 'red'), ...INVALID],
    ['exists', Q.exists(['name']), ...INVALID],
    ['notExists', Q.notExists(['name']), ...INVALID],
    ['elemMatch', Q.elemMatch('tags', [Q.equal('x', 1)]), ...INVALID],
    ['a distance', Q.distanceLessThan('name', [1, 2], 3), ...INVALID],
    ['an intersection', Q.intersects('name', [1, 2]), ...INVALID],
    ['a vector', Q.vectorDot('name', [1, 2]), ...INVALID],
    ['a join', raw('join', 'name', ['other']), ...INVALID],
    ['a sum', raw('sum', 'age', []), ...INVALID],
    ['select of nothing', raw('select', undefined, []), ...INVALID],
    ['select of a number', raw('select', undefined, [5]), ...INVALID],
    ['select twice the same', Q.select(['name', 'name']), ...INVALID],
    ['an absent cursor row', Q.cursorAfter('nobody'), 400, 'general_cursor_not_found'],
    ['a malformed cursor', Q.cursorAfter('_not an id'), ...INVALID],
    ['a cursor before an absent row', Q.cursorBefore('nobody'), 400, 'general_cursor_not_found'],
  ]) {
    test(`${what}: ${code} ${type}`, () => refused(list([query]), code, type, message));
  }

  test('a cursor row with NULL in the order: database_query_order_null', () =>
    refused(list([Q.orderAsc('age'), Q.cursorAfter('void')]), 400, 'database_query_order_null'));

  test('100 queries are taken, 101 refused', async () => {
    const queries = Array.from({ length: 100 }, () => Q.equal('age', 30));
    await check(queries, 'ann bo');
    await refused(list([...queries, Q.limit(1)]), 400, 'general_argument_invalid', /queries/);
  });

  test('a query of 4096 characters is taken, of 4097 refused', async () => {
    const padded = (length) => {
      const empty = Q.equal('name', '');
      return Q.equal('name', 'x'.repeat(length - empty.length));
    };
    assert.equal(padded(4096).length, 4096);
    await check([padded(4096)], '');
    await refused(list([padded(4097)]), 400, 'general_argument_invalid', /queries/);
  });

  test('one bad query among good ones refuses the request', () =>
    refused(list([Q.equal('age', 30), Q.equal('colour', 1)]), 400, 'general_query_invalid'));

  test('a refused query over plain HTTP has the error shape', async () => {
    const { status, json } = await server.ask('GET', listRoute('d', 'people', ['{']));
    assert.deepEqual([status, json.code, json.type], [400, 400, 'general_query_invalid']);
  });
});
