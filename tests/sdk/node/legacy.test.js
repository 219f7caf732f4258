// The older route family, `/v1/databases`: the same tables under older words.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Databases, Query as Q } from 'node-appwrite';
import { refused, Server } from './server.js';

const OLD = { databaseId: 'd', collectionId: 't' };
const NEW = { databaseId: 'd', tableId: 't' };

let server;
let old;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  old = new Databases(server.client());
  await db.create({ databaseId: 'd', name: 'D' });
  const columns = [
    { key: 'n', type: 'integer', required: true },
    { key: 'code', type: 'varchar', size: 9, required: false },
  ];
  const indexes = [{ key: 'one', type: 'unique', attributes: ['code'] }];
  await db.createTable({ ...NEW, name: 'T', columns, indexes, permissions: ['read("any")'] });
  await db.createRows({ ...NEW, rows: [{ $id: 'a', n: 1, code: 'x' }, { $id: 'b', n: 2 }] });
});
after(() => server.close());

test('a document is the row under older words', async () => {
  const { $tableId, ...row } = await db.getRow({ ...NEW, rowId: 'a' });
  const { $collectionId, ...document } = await old.getDocument({ ...OLD, documentId: 'a' });
  assert.deepEqual([$tableId, $collectionId], ['t', 't']);
  assert.deepEqual(document, row);
});

test('a document list is the row list', async () => {
  const queries = [Q.orderDesc('n'), Q.limit(1)];
  const { total, documents } = await old.listDocuments({ ...OLD, queries });
  assert.deepEqual([total, documents.map((one) => one.$id)], [2, ['b']]);
  assert.ok(!('$tableId' in documents[0]));
});

test('a document is created, changed, put and deleted', async () => {
  const address = { ...OLD, documentId: 'life' };
  assert.equal((await old.createDocument({ ...address, data: { n: 5 } })).n, 5);
  assert.equal((await old.updateDocument({ ...address, data: { n: 6 } })).n, 6);
  assert.equal((await old.upsertDocument({ ...address, data: { code: 'y' } })).n, 6);
  assert.equal((await db.getRow({ ...NEW, rowId: 'life' })).code, 'y');
  await old.deleteDocument(address);
  await refused(db.getRow({ ...NEW, rowId: 'life' }), 404, 'row_not_found');
});

test('a collection is the table under older words', async () => {
  const table = await db.getTable(NEW);
  const collection = await old.getCollection(OLD);
  assert.equal(collection.documentSecurity, table.rowSecurity);
  assert.deepEqual(collection.attributes.map((one) => one.key), ['n', 'code']);
  assert.deepEqual(collection.indexes[0].attributes, ['code']);
  assert.ok(!('columns' in collection) && !('rowSecurity' in collection));
  const { total, collections } = await old.listCollections({ databaseId: 'd' });
  assert.deepEqual([total, collections.map((one) => one.$id)], [1, ['t']]);
});

test('a collection with attributes made here is a table there', async () => {
  await old.create({ databaseId: 'old', name: 'Old' });
  assert.equal((await db.get({ databaseId: 'old' })).type, 'legacy');
  await old.createCollection({
    databaseId: 'old',
    collectionId: 'c',
    name: 'C',
    documentSecurity: true,
    attributes: [{ key: 'k', type: 'text', required: false }],
  });
  const table = await db.getTable({ databaseId: 'old', tableId: 'c' });
  assert.deepEqual([table.rowSecurity, table.columns.map((one) => one.key)], [true, ['k']]);
});

test('both families share the TTL cache contract', async () => {
  const route = '/databases/d/collections/t/documents?ttl=60';
  const ask = async () => (await server.ask('GET', route)).headers.get('x-appwrite-cache');
  assert.deepEqual([await ask(), await ask()], ['miss', 'hit']);
  await old.updateCollection({ ...OLD, purge: true });
  assert.equal(await ask(), 'miss');
});

const data = { n: 1 };
for (const [what, call, code, type] of [
  ['an absent document', () => old.getDocument({ ...OLD, documentId: 'none' }), 404, 'document_not_found'],
  ['an absent collection', () => old.getCollection({ databaseId: 'd', collectionId: 'none' }), 404, 'collection_not_found'],
  ['an absent database', () => old.get({ databaseId: 'none' }), 404, 'database_not_found'],
  ['an id in use', () => old.createDocument({ ...OLD, documentId: 'a', data }), 409, 'document_already_exists'],
  ['a unique value in use', () => old.createDocument({ ...OLD, documentId: 'c', data: { n: 1, code: 'x' } }), 409, 'document_unique_constraint_violation'],
  ['a wrong type', () => old.createDocument({ ...OLD, documentId: 'c', data: { n: 'x' } }), 400, 'document_invalid_structure'],
  ['empty data', () => old.createDocument({ ...OLD, documentId: 'c', data: {} }), 400, 'document_missing_data'],
  ['an empty change', () => old.updateDocument({ ...OLD, documentId: 'a', data: {} }), 400, 'document_missing_payload'],
]) {
  test(`${what}: ${code} ${type}`, () => refused(call(), code, type));
}

test('a malformed id is named in older words', () => {
  const call = old.createDocument({ ...OLD, documentId: '_x', data });
  return refused(call, 400, 'general_argument_invalid', /`documentId`/);
});
