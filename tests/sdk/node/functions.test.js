// Functions and their variables through the official SDK. Nothing is executed here.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Functions, ID, Query, Runtime } from 'node-appwrite';
import { InputFile } from 'node-appwrite/file';
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

test('a deployment in parallel parts comes back as it was sent', async () => {
  const functionId = ID.unique();
  await functions.create({ functionId, name: 'F', runtime: Runtime.Node22, entrypoint: 'a.js' });
  const bytes = Buffer.alloc(21_000_000);
  for (let at = 0; at < bytes.length; at += 4) {
    bytes.writeUInt32LE(Math.imul(at, 2_654_435_761) >>> 0, at);
  }
  bytes.set([0x1f, 0x8b]);
  const code = InputFile.fromBuffer(bytes, 'code.tar.gz');
  const made = await functions.createDeployment({ functionId, code, activate: true });
  const of = { functionId, deploymentId: made.$id };
  const known = await functions.getDeployment(of);
  assert.deepEqual([known.status, Number(known.sourceSize)], ['waiting', bytes.length]);
  const sent = await functions.getDeploymentDownload(of);
  assert.ok(Buffer.from(sent).equals(bytes));
  assert.equal((await functions.listDeployments({ functionId })).total, 1);
  assert.equal((await functions.updateDeploymentStatus(of)).status, 'canceled');
  await functions.deleteDeployment(of);
  await refused(functions.getDeployment(of), 404, 'deployment_not_found');
});
