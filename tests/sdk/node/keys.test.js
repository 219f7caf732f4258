// Projects and API keys as the command line makes them, and what their holders may call.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Project, Query } from 'node-appwrite';
import { refused, Server } from './server.js';

const T = { databaseId: 'd', tableId: 't' };
const SCOPE = [401, 'general_unauthorized_scope'];
const data = { n: 1 };

let server;
let db;
before(async () => {
  server = await Server.start();
  db = server.tables();
  await db.create({ databaseId: 'd', name: 'D' });
  const columns = [{ key: 'n', type: 'integer', required: false }];
  await db.createTable({ ...T, name: 'T', columns });
  await db.createRow({ ...T, rowId: 'r', data });
});
after(() => server.close());

const withScopes = async (scopes) => {
  const { secret } = await server.cli('key', 'create', '--scopes', scopes);
  return server.tables(secret);
};

const calls = {
  'databases.read': (by) => by.get({ databaseId: 'd' }),
  'databases.write': (by) => by.update({ databaseId: 'd', name: 'D' }),
  'tables.read': (by) => by.getTable(T),
  'tables.write': (by) => by.updateTable({ ...T, name: 'T' }),
  'rows.read': (by) => by.listRows(T),
  'rows.write': (by) => by.updateRow({ ...T, rowId: 'r', data: { n: 1 } }),
};
for (const held of Object.keys(calls)) {
  test(`a key with ${held} may do that and nothing else`, async () => {
    const by = await withScopes(held);
    for (const [scope, call] of Object.entries(calls)) {
      if (scope === held) await call(by);
      else await refused(call(by), ...SCOPE);
    }
  });
}

test('older words of scopes are taken', async () => {
  const by = await withScopes('documents.read,collections.read');
  assert.equal((await by.listRows(T)).total, 1);
  assert.equal((await by.getTable(T)).$id, 't');
});

test('an unknown scope makes no key', async () => {
  await assert.rejects(withScopes('rows.admire'), { code: 1 });
});

test('a revoked key is refused from the next request on', async () => {
  const { id, secret } = await server.cli('key', 'create', '--name', 'brief');
  const by = server.tables(secret);
  assert.equal((await by.listRows(T)).total, 1);
  await server.cli('key', 'revoke', id);
  await refused(by.list(), ...SCOPE);
  await refused(by.listRows(T), ...SCOPE);
  const keys = await server.cli('key', 'list');
  assert.ok(keys.every((key) => key.id !== id && !('secret' in key)));
});

test('an expired key is refused as such', async () => {
  const { secret } = await server.cli('key', 'create', '--expire', '2001-01-01');
  await refused(server.tables(secret).listRows(T), 401, 'project_key_expired');
});

test('the project and its keys are read, and a key is revoked', async () => {
  const project = new Project(server.client());
  assert.equal((await project.get()).$id, 'default');
  const { id } = await server.cli('key', 'create', '--name', 'shown', '--scopes', 'rows.read');
  const key = await project.getKey({ keyId: id });
  assert.deepEqual([key.name, key.scopes, key.secret], ['shown', ['rows.read'], '']);
  const listed = await project.listKeys({ queries: [Query.equal('name', 'shown')] });
  assert.deepEqual([listed.total, listed.keys[0].$id], [1, id]);
  const made = { keyId: 'k', name: 'K', scopes: ['rows.read'] };
  await refused(project.createKey(made), 403, 'key_creation_denied');
  await refused(project.updateKey({ ...made, keyId: id }), 403, 'key_creation_denied');
  await project.deleteKey({ keyId: id });
  await refused(project.getKey({ keyId: id }), 404, 'key_not_found');
});

test('projects do not see each other', async () => {
  await server.cli('project', 'create', 'second');
  const { secret } = await server.cli('key', 'create', '--project', 'second');
  const there = server.tables(secret, 'second');
  assert.equal((await there.list()).total, 0);
  await refused(there.listRows(T), 404, 'database_not_found');
  await there.create({ databaseId: 'd', name: 'Another' });
  assert.equal((await db.get({ databaseId: 'd' })).name, 'D');
  // A key opens its own project only.
  await refused(server.tables(secret).list(), ...SCOPE);
  await refused(server.tables(undefined, 'second').list(), ...SCOPE);
});

test('keys are made without a server, too, and open the next one', async () => {
  let other = await Server.start();
  try {
    await other.stop();
    const { secret } = await other.cli('key', 'create');
    other = await other.serveAgain();
    assert.equal((await other.tables(secret).list()).total, 0);
    assert.equal((await other.tables().list()).total, 0);
  } finally {
    await other.close();
  }
});
