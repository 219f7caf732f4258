// Relationships through the SDK, by the words of both families.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Databases, Query, RelationMutate, RelationshipType } from 'node-appwrite';
import { refused, Server } from './server.js';

let server;
let db;
let old;
before(async () => {
  server = await Server.start();
  db = server.tables();
  old = new Databases(server.client());
  await db.create({ databaseId: 'd', name: 'D' });
});
after(() => server.close());

/** Tables `books` and `authors` of their own for each test. */
async function tables(name) {
  const [books, authors] = [`books-${name}`, `authors-${name}`];
  for (const tableId of [books, authors]) {
    const columns = [{ key: 'name', type: 'varchar', size: 50, required: false }];
    await db.createTable({ databaseId: 'd', tableId, name: tableId, columns });
  }
  return [{ databaseId: 'd', tableId: books }, { databaseId: 'd', tableId: authors }];
}

const select = (...names) => ({ queries: [Query.select(names)] });
const named = (rows) => rows.map((row) => row.name).sort();

test('a relationship is created, found from both tables, changed and deleted', async () => {
  const [books, authors] = await tables('life');
  const made = await db.createRelationshipColumn({
    ...books, relatedTableId: authors.tableId, type: RelationshipType.ManyToOne, twoWay: true,
    key: 'author', twoWayKey: 'books', onDelete: RelationMutate.Cascade,
  });
  assert.ok(['processing', 'available'].includes(made.status));
  const shown = await db.getColumn({ ...books, key: 'author' });
  assert.deepEqual(
    [shown.status, shown.type, shown.relatedTable, shown.relationType, shown.side, shown.twoWayKey],
    ['available', 'relationship', authors.tableId, 'manyToOne', 'parent', 'books'],
  );
  const attribute = await old.getAttribute({
    databaseId: 'd', collectionId: authors.tableId, key: 'books',
  });
  assert.deepEqual([attribute.side, attribute.relatedCollection], ['child', books.tableId]);
  const changed = await db.updateRelationshipColumn({
    ...books, key: 'author', onDelete: RelationMutate.SetNull, newKey: 'writer',
  });
  assert.deepEqual([changed.key, changed.onDelete], ['writer', 'setNull']);
  const again = await old.updateRelationshipAttribute({
    databaseId: 'd', collectionId: books.tableId, key: 'writer', onDelete: RelationMutate.Restrict,
  });
  assert.equal(again.onDelete, 'restrict');
  await db.deleteColumn({ ...authors, key: 'books' });
  await refused(db.getColumn({ ...books, key: 'writer' }), 404, 'column_not_found');
});

test('without keys the tables lend their ids', async () => {
  const [books, authors] = await tables('keys');
  const made = await db.createRelationshipColumn({
    ...books, relatedTableId: authors.tableId, type: RelationshipType.OneToOne, twoWay: true,
  });
  assert.deepEqual(
    [made.key, made.twoWayKey, made.onDelete],
    [authors.tableId, books.tableId, 'restrict'],
  );
  const twice = db.createRelationshipColumn({
    ...books, relatedTableId: authors.tableId, type: RelationshipType.OneToOne,
  });
  await refused(twice, 409, 'column_already_exists');
});

describe('rows with links', () => {
  let books;
  let authors;
  before(async () => {
    [books, authors] = await tables('rows');
    await db.createRelationshipColumn({
      ...authors, relatedTableId: books.tableId, type: RelationshipType.OneToMany, twoWay: true,
      key: 'books', twoWayKey: 'author',
    });
    const written = [{ $id: 'b1', name: 'One' }, { name: 'Two' }];
    await db.createRow({ ...authors, rowId: 'ada', data: { name: 'Ada', books: written } });
  });

  test('are read with what is selected, and without it otherwise', async () => {
    const plain = await db.getRow({ ...authors, rowId: 'ada' });
    assert.ok(!('books' in plain) && plain.name === 'Ada');
    const whole = await db.getRow({ ...authors, rowId: 'ada', ...select('*', 'books.*') });
    assert.deepEqual(named(whole.books), ['One', 'Two']);
    const listed = await db.listRows({ ...books, ...select('name', 'author.name') });
    assert.deepEqual(listed.rows.map((row) => row.author.name), ['Ada', 'Ada']);
    const queries = [Query.equal('author', 'ada'), Query.equal('name', 'One')];
    const byAuthor = await db.listRows({ ...books, queries });
    assert.deepEqual([byAuthor.total, byAuthor.rows[0].$id], [1, 'b1']);
    const older = await old.getDocument({
      databaseId: 'd', collectionId: books.tableId, documentId: 'b1', ...select('*', 'author.*'),
    });
    assert.equal(older.author.$collectionId, authors.tableId);
  });

  test('are linked and unlinked by id', async () => {
    await db.createRow({ ...books, rowId: 'b3', data: { name: 'Three', author: 'ada' } });
    let row = await db.getRow({ ...authors, rowId: 'ada', ...select('books.name') });
    assert.deepEqual(named(row.books), ['One', 'Three', 'Two']);
    await db.updateRow({ ...books, rowId: 'b3', data: { author: null } });
    row = await db.getRow({ ...authors, rowId: 'ada', ...select('books.name') });
    assert.deepEqual(named(row.books), ['One', 'Two']);
    const absent = db.updateRow({ ...books, rowId: 'b3', data: { author: 'nobody' } });
    await refused(absent, 400, 'relationship_value_invalid');
  });

  test('protect each other as the relationship says', async () => {
    await refused(db.deleteRow({ ...authors, rowId: 'ada' }), 403, 'row_delete_restricted');
    const legacy = old.deleteDocument({
      databaseId: 'd', collectionId: authors.tableId, documentId: 'ada',
    });
    await refused(legacy, 403, 'document_delete_restricted');
    const onDelete = RelationMutate.Cascade;
    await db.updateRelationshipColumn({ ...authors, key: 'books', onDelete });
    await db.deleteRow({ ...authors, rowId: 'ada' });
    const left = await db.listRows(books);
    assert.deepEqual(left.rows.map((row) => row.$id), ['b3']);
  });

  test('are not written in bulk', async () => {
    const rows = [{ $id: 'x', name: 'X' }];
    await refused(db.createRows({ ...books, rows }), 400, 'general_bad_request');
    await refused(db.deleteRows(books), 400, 'general_bad_request');
  });
});

test('many rows are linked to many', async () => {
  const [books, authors] = await tables('many');
  await db.createRelationshipColumn({
    ...books, relatedTableId: authors.tableId, type: RelationshipType.ManyToMany, twoWay: true,
    key: 'authors', twoWayKey: 'books', onDelete: RelationMutate.SetNull,
  });
  for (const rowId of ['a1', 'a2']) {
    await db.createRow({ ...authors, rowId, data: { name: rowId } });
  }
  await db.createRow({ ...books, rowId: 'b1', data: { name: 'b1', authors: ['a1', 'a2'] } });
  await db.createRow({ ...books, rowId: 'b2', data: { name: 'b2', authors: ['a2'] } });
  const from = async (rowId) => {
    const row = await db.getRow({ ...authors, rowId, ...select('books.name') });
    return named(row.books);
  };
  assert.deepEqual([await from('a1'), await from('a2')], [['b1'], ['b1', 'b2']]);
  await db.updateRow({ ...authors, rowId: 'a1', data: { books: ['b2'] } });
  assert.deepEqual([await from('a1'), await from('a2')], [['b2'], ['b1', 'b2']]);
  await db.deleteRow({ ...authors, rowId: 'a2' });
  const listed = await db.listRows({ ...books, ...select('name', 'authors.name') });
  assert.deepEqual(listed.rows.map((row) => named(row.authors)), [[], ['a1']]);
});
