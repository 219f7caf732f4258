// Documents: made, read, changed, deleted, queried, refused; all through positional arguments.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ID, Permission, Query, Role } from 'node-appwrite';
import { refused, start } from './start.js';

const ATTRIBUTES = [
  { key: 'name', type: 'varchar', size: 64, required: true },
  { key: 'price', type: 'float', required: false },
  { key: 'stock', type: 'integer', required: false, min: 0, max: 100 },
  { key: 'tags', type: 'varchar', size: 16, array: true, required: false },
  { key: 'sold', type: 'datetime', required: false },
  { key: 'open', type: 'boolean', required: false },
];
const INDEXES = [{ key: 'one_name', type: 'unique', attributes: ['name'] }];

let server;
let databases;
let guest;
before(async () => {
  ({ server, databases, guest } = await start());
  await databases.create('d', 'D');
  await makeCollection('c', { permissions: ['read("any")'] });
  for (const [place, name] of ['apple', 'bread', 'cheese', 'dates'].entries()) {
    const tags = place % 2 === 0 ? ['even'] : ['odd'];
    const data = { name, price: place + 0.5, stock: place, tags };
    await databases.createDocument('d', 'c', name, data);
  }
});
after(() => server.close());

/** The SDK creates collections without attributes; here they come with it. */
async function makeCollection(collectionId, settings) {
  const body = { collectionId, name: 'C', attributes: ATTRIBUTES, indexes: INDEXES, ...settings };
  const { status, text } = await server.ask('POST', '/databases/d/collections', { body });
  assert.equal(status, 201, text);
}

const ids = ({ documents }) => documents.map((one) => one.$id).join(' ');

test('containers: created, read, listed, searched, renamed, deleted', async () => {
  const made = await databases.create('x', 'Other', false);
  assert.deepEqual([made.$id, made.name, made.enabled], ['x', 'Other', false]);
  assert.equal((await databases.update('x', 'Another', true)).name, 'Another');
  assert.equal((await databases.get('x')).enabled, true);
  const found = await databases.list([Query.equal('name', 'Another')]);
  assert.deepEqual([found.total, found.databases.map((one) => one.$id)], [1, ['x']]);
  assert.equal((await databases.list([], 'noth')).databases[0].$id, 'x');
  const everyone = [Permission.read(Role.any())];
  const collection = await databases.createCollection('x', 'k', 'K', everyone, true);
  assert.deepEqual([collection.databaseId, collection.documentSecurity], ['x', true]);
  assert.deepEqual(collection.$permissions, ['read("any")']);
  assert.deepEqual([collection.attributes, collection.indexes], [[], []]);
  const renamed = await databases.updateCollection('x', 'k', 'K2', [], false, false);
  assert.deepEqual([renamed.name, renamed.documentSecurity, renamed.enabled], ['K2', false, false]);
  assert.equal((await databases.getCollection('x', 'k')).name, 'K2');
  assert.equal((await databases.listCollections('x')).total, 1);
  await databases.deleteCollection('x', 'k');
  await databases.delete('x');
  await refused(databases.get('x'), 404, 'database_not_found');
});

test('attributes and indexes of a collection are listed and read', async () => {
  const { total, attributes } = await databases.listAttributes('d', 'c');
  assert.deepEqual([total, attributes.length], [ATTRIBUTES.length, ATTRIBUTES.length]);
  const stock = await databases.getAttribute('d', 'c', 'stock');
  assert.deepEqual([stock.type, stock.min, stock.max], ['integer', 0, 100]);
  assert.equal(stock.status, 'available');
  const { indexes } = await databases.listIndexes('d', 'c');
  const [{ key, type, attributes: of }] = indexes;
  assert.deepEqual([key, type, of], ['one_name', 'unique', ['name']]);
  assert.equal((await databases.getIndex('d', 'c', 'one_name')).status, 'available');
});

test('a document: made, read, changed, put, deleted', async () => {
  const sold = '2026-01-31T10:00:00.000+02:00';
  const data = { name: 'fig', sold, open: true };
  const made = await databases.createDocument('d', 'c', ID.unique(), data);
  assert.match(made.$id, /^[0-9a-f]{20}$/);
  assert.deepEqual([made.$databaseId, made.$collectionId], ['d', 'c']);
  assert.equal(made.sold, '2026-01-31T08:00:00.000+00:00');
  assert.deepEqual([made.price, made.tags], [null, []]);
  assert.deepEqual(await databases.getDocument('d', 'c', made.$id), made);
  const guests = [Permission.read(Role.guests())];
  const changed = await databases.updateDocument('d', 'c', made.$id, { price: 2 }, guests);
  assert.deepEqual([changed.price, changed.name], [2, 'fig']);
  assert.deepEqual(changed.$permissions, guests);
  const merged = await databases.upsertDocument('d', 'c', made.$id, { stock: 5 });
  assert.deepEqual([merged.stock, merged.price], [5, 2]);
  assert.equal((await databases.upsertDocument('d', 'c', 'grape', { name: 'grape' })).$id, 'grape');
  for (const id of [made.$id, 'grape']) {
    await databases.deleteDocument('d', 'c', id);
    await refused(databases.getDocument('d', 'c', id), 404, 'document_not_found');
  }
});

test('several documents are made in one call', async () => {
  const documents = ['m1', 'm2'].map((id) => ({ $id: id, name: id }));
  const list = await databases.createDocuments('d', 'c', documents);
  assert.deepEqual([list.total, ids(list)], [2, 'm1 m2']);
  for (const id of ['m1', 'm2']) await databases.deleteDocument('d', 'c', id);
});

describe('a list', () => {
  for (const [what, queries, seen] of [
    ['whole', [], 'apple bread cheese dates'],
    ['by value', [Query.equal('name', ['bread', 'dates'])], 'bread dates'],
    ['by comparison', [Query.greaterThan('price', 1), Query.lessThanEqual('stock', 2)], 'bread cheese'],
    ['by range', [Query.between('price', 0, 1.5)], 'apple bread'],
    ['by part of a text', [Query.startsWith('name', 'ch')], 'cheese'],
    ['by an element', [Query.contains('tags', ['odd'])], 'bread dates'],
    ['by null', [Query.isNull('sold'), Query.notEqual('name', 'apple')], 'bread cheese dates'],
    ['by either of two', [Query.or([Query.equal('stock', 0), Query.equal('stock', 3)])], 'apple dates'],
    ['ordered, cut', [Query.orderDesc('price'), Query.limit(2), Query.offset(1)], 'cheese bread'],
    ['after a cursor', [Query.orderAsc('name'), Query.cursorAfter('bread')], 'cheese dates'],
    ['before a cursor', [Query.orderAsc('name'), Query.cursorBefore('bread')], 'apple'],
    ['by time of creation', [Query.greaterThan('$createdAt', '2020-01-01'), Query.limit(1)], 'apple'],
  ]) {
    test(what, async () => {
      assert.equal(ids(await databases.listDocuments('d', 'c', queries)), seen);
    });
  }

  test('of chosen attributes', async () => {
    const queries = [Query.select(['name']), Query.limit(1)];
    const { total, documents } = await databases.listDocuments('d', 'c', queries);
    assert.deepEqual([total, documents[0].name, 'price' in documents[0]], [4, 'apple', false]);
  });
});

describe('a refusal carries code, type and words', () => {
  const put = (id, data) => databases.createDocument('d', 'c', id, data);
  for (const [what, call, code, type] of [
    ['absent database', () => databases.listCollections('none'), 404, 'database_not_found'],
    ['absent collection', () => databases.listDocuments('d', 'none'), 404, 'collection_not_found'],
    ['absent document', () => databases.getDocument('d', 'c', 'none'), 404, 'document_not_found'],
    ['absent attribute', () => databases.getAttribute('d', 'c', 'none'), 404, 'attribute_not_found'],
    ['absent index', () => databases.getIndex('d', 'c', 'none'), 404, 'index_not_found'],
    ['id in use', () => put('apple', { name: 'other' }), 409, 'document_already_exists'],
    ['value in use', () => put('z', { name: 'apple' }), 409, 'document_unique_constraint_violation'],
    ['collection in use', () => databases.createCollection('d', 'c', 'C'), 409, 'collection_already_exists'],
    ['unknown attribute', () => put('z', { name: 'z', nobody: 1 }), 400, 'document_invalid_structure'],
    ['value out of range', () => put('z', { name: 'z', stock: 101 }), 400, 'document_invalid_structure'],
    ['missing attribute', () => put('z', { price: 1 }), 400, 'document_invalid_structure'],
    ['malformed id', () => put('_z', { name: 'z' }), 400, 'general_argument_invalid'],
    ['unknown query', () => databases.listDocuments('d', 'c', [Query.equal('nobody', 1)]), 400, 'general_query_invalid'],
    ['no query', () => databases.listDocuments('d', 'c', ['x']), 400, 'general_query_invalid'],
    ['too many queries', () => databases.listDocuments('d', 'c', Array(101).fill(Query.isNull('sold'))), 400, 'general_argument_invalid'],
    ['absent cursor', () => databases.listDocuments('d', 'c', [Query.cursorAfter('none')]), 400, 'general_cursor_not_found'],
    ['guest who writes', () => guest.createDocument('d', 'c', 'z', { name: 'z' }), 401, 'user_unauthorized'],
    ['guest who makes a collection', () => guest.createCollection('d', 'z', 'Z'), 401, 'general_unauthorized_scope'],
  ]) {
    test(`${what}: ${code} ${type}`, () => refused(call(), code, type));
  }
});

test('a guest reads what is granted', async () => {
  assert.equal(ids(await guest.listDocuments('d', 'c')), 'apple bread cheese dates');
  await makeCollection('own', { documentSecurity: true });
  await databases.createDocument('d', 'own', 'a', { name: 'a' }, [Permission.read(Role.any())]);
  await databases.createDocument('d', 'own', 'b', { name: 'b' });
  const seen = await guest.listDocuments('d', 'own');
  assert.deepEqual([seen.total, ids(seen)], [1, 'a']);
  await refused(guest.getDocument('d', 'own', 'b'), 404, 'document_not_found');
});
