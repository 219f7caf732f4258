// Functions and their variables through the official SDK. Nothing is executed here.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Functions, ID, Query, Runtime } from 'node-appwrite';
import { refused, Server } from './server.js';

let server;
let functions;
before(async () => {
  server = await Server.start();
  functions = new Functions(server.tables().client);
});
after(() => server.close());

test('a function from create to delete', async () => {
  const functionId = 'life';
  const made = await functions.create({
    functionId,
    name: 'Life',
    runtime: Runtime.Node200,
    execute: ['any'],
    events: ['databases.*.tables.*.rows.*.create'],
    schedule: '*/5 * * * *',
    timeout: 30,
    scopes: ['rows.read'],
    entrypoint: 'main.js',
    commands: 'npm install',
  });
  assert.equal(made.$id, functionId);
  assert.equal(made.runtime, 'node-20.0');
  assert.deepEqual(made.vars, []);
  assert.deepEqual(await functions.get({ functionId }), made);
  const changed = await functions.update({ functionId, name: 'Changed', enabled: false });
  const { $updatedAt } = changed;
  assert.deepEqual({ ...changed }, { ...made, name: 'Changed', enabled: false, $updatedAt });
  const queries = [Query.equal('enabled', false), Query.limit(1)];
  const listed = await functions.list({ queries, search: 'chan' });
  assert.deepEqual([listed.total, listed.functions], [1, [changed]]);
  await functions.delete({ functionId });
  await refused(functions.get({ functionId }), 404, 'function_not_found');
});

test('variables of a function', async () => {
  const functionId = ID.unique();
  await functions.create({ functionId, name: 'F', runtime: Runtime.Python311 });
  const of = { functionId };
  const secret = await functions.createVariable({
    ...of,
    variableId: ID.unique(),
    key: 'TOKEN',
    value: 'x',
  });
  assert.deepEqual([secret.secret, secret.value, secret.resourceId], [true, '', functionId]);
  const variableId = 'shown';
  const plain = await functions.createVariable({
    ...of,
    variableId,
    key: 'REGION',
    value: 'north',
    secret: false,
  });
  assert.equal(plain.value, 'north');
  const changed = await functions.updateVariable({ ...of, variableId, value: 'south' });
  assert.equal((await functions.getVariable({ ...of, variableId })).value, 'south');
  const listed = await functions.listVariables({ ...of, queries: [Query.equal('secret', false)] });
  assert.deepEqual([listed.total, listed.variables], [1, [changed]]);
  assert.deepEqual((await functions.get(of)).vars, [secret, changed]);
  await refused(
    functions.updateVariable({ ...of, variableId: secret.$id, secret: false }),
    400,
    'variable_cannot_unset_secret',
  );
  await functions.deleteVariable({ ...of, variableId });
  await refused(functions.getVariable({ ...of, variableId }), 404, 'variable_not_found');
});

test('what can be named for a function', async () => {
  assert.deepEqual((await functions.listRuntimes()).runtimes, []);
  const { specifications } = await functions.listSpecifications();
  assert.equal(specifications[0].slug, 's-0.5vcpu-512mb');
});
