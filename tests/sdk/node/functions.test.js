// Functions, their variables, deployments and executions through the official SDK.

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { ID, Query, Runtime } from 'node-appwrite';
import { InputFile } from 'node-appwrite/file';
import { archive, deployed, ownRuntime } from './deployment.js';
import { poll, refused, Server } from './server.js';

/** A minute of a schedule may just have begun, and the machine may be busy. */
const EXECUTION_LIMIT_MS = 180_000;

let server;
let functions;
before(async () => {
  server = await Server.start();
  functions = server.functions();
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
  for (const runtime of (await functions.listRuntimes()).runtimes) {
    assert.equal(runtime.$id, `${runtime.key}-${runtime.version}`);
  }
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
  assert.equal(Number(known.sourceSize), bytes.length);
  const sent = await functions.getDeploymentDownload(of);
  assert.ok(Buffer.from(sent).equals(bytes));
  assert.equal((await functions.listDeployments({ functionId })).total, 1);
  // It is no archive, so that no build of it can succeed.
  await poll('the build', async () => {
    const { status } = await functions.getDeployment(of);
    return ['failed', 'waiting'].includes(status) ? status : null;
  });
  await functions.deleteDeployment(of);
  await refused(functions.getDeployment(of), 404, 'deployment_not_found');
});

test('the official SDK inside a handler reads and writes rows', async (t) => {
  const runtime = await ownRuntime(functions, t);
  if (runtime === undefined) return;
  const databaseId = 'inside';
  const tableId = 'notes';
  const tables = server.tables();
  await tables.create({ databaseId, name: 'Inside' });
  await tables.createTable({
    databaseId,
    tableId,
    name: 'Notes',
    columns: [{ key: 'text', type: 'string', size: 100 }],
  });
  const functionId = ID.unique();
  const scopes = ['rows.read', 'rows.write'];
  await functions.create({ functionId, name: 'F', runtime, scopes });
  const main = `import { Client, Query, TablesDB } from 'node-appwrite'
  export default async ({ req, res }) => {
    const client = new Client()
      .setEndpoint(process.env.APPWRITE_FUNCTION_API_ENDPOINT)
      .setProject(process.env.APPWRITE_FUNCTION_PROJECT_ID)
      .setKey(req.headers['x-appwrite-key'])
    const tables = new TablesDB(client)
    const place = { databaseId: 'inside', tableId: 'notes' }
    for (const rowId of ['a', 'b']) {
      await tables.createRow({ ...place, rowId, data: { text: 'of ' + rowId } })
    }
    const queries = [Query.equal('text', 'of b')]
    const { rows } = await tables.listRows({ ...place, queries })
    const refused = await tables.listTables({ databaseId: 'inside' }).catch((error) => error.type)
    return res.json({ found: rows.map(({ $id }) => $id), refused })
  }`;
  const files = { 'main.js': main, 'package.json': '{"type":"module"}' };
  const modules = path.join(import.meta.dirname, 'node_modules');
  await deployed(functions, functionId, archive(files, { node_modules: modules }));
  const execution = await functions.createExecution({ functionId });
  assert.equal(execution.status, 'completed', execution.errors);
  const answer = { found: ['b'], refused: 'general_unauthorized_scope' };
  assert.deepEqual(JSON.parse(execution.responseBody), answer);
  assert.equal((await tables.getRow({ databaseId, tableId, rowId: 'a' })).text, 'of a');
});

test('a handler from its files to its answer', async (t) => {
  const runtime = await ownRuntime(functions, t);
  if (runtime === undefined) return;
  const functionId = ID.unique();
  await functions.create({ functionId, name: 'F', runtime, execute: ['any'] });
  const key = 'WORD';
  await functions.createVariable({ functionId, variableId: ID.unique(), key, value: 'tide' });
  const main = `module.exports = async ({ req, res, log }) => {
    log('asked')
    return res.json({ word: process.env.WORD, n: req.bodyJson.n + 1, way: req.path }, 201)
  }`;
  const deploymentId = await deployed(
    functions,
    functionId,
    archive({ 'main.js': main }),
    'test -f main.js',
  );
  const execution = await functions.createExecution({
    functionId,
    body: JSON.stringify({ n: 1 }),
    xpath: '/way?a=b',
    headers: { 'content-type': 'application/json' },
  });
  assert.equal(execution.status, 'completed', execution.errors);
  assert.equal(execution.responseStatusCode, 201);
  assert.deepEqual(JSON.parse(execution.responseBody), { word: 'tide', n: 2, way: '/way' });
  assert.equal(execution.logs, 'asked\n');
  assert.equal(execution.deploymentId, deploymentId);
});

/** Waits for the end of an execution: this one, or the first one. */
function ended(functionId, executionId) {
  return poll(
    'the execution',
    async () => {
      const found = executionId
        ? await functions.getExecution({ functionId, executionId })
        : (await functions.listExecutions({ functionId })).executions[0];
      return ['completed', 'failed'].includes(found?.status) ? found : null;
    },
    EXECUTION_LIMIT_MS,
  );
}

const SHOWN = `module.exports = async ({ req, res, log }) => {
  const { 'x-appwrite-trigger': trigger, 'x-appwrite-event': event } = req.headers
  log(JSON.stringify({ trigger, event }))
  log(req.bodyText)
  return res.text('answered', 201)
}`;

test('an execution that is queued, and deleted', async (t) => {
  const runtime = await ownRuntime(functions, t);
  if (runtime === undefined) return;
  const functionId = ID.unique();
  await functions.create({ functionId, name: 'F', runtime });
  await deployed(functions, functionId, archive({ 'main.js': SHOWN }));
  const accepted = await functions.createExecution({ functionId, body: 'sent', async: true });
  assert.equal(accepted.status, 'waiting');
  const found = await ended(functionId, accepted.$id);
  const { status, responseStatusCode, responseBody } = found;
  assert.deepEqual([status, responseStatusCode, responseBody], ['completed', 201, '']);
  assert.equal(found.logs.split('\n')[1], 'sent');
  const executionId = found.$id;
  await functions.deleteExecution({ functionId, executionId });
  await refused(functions.getExecution({ functionId, executionId }), 404, 'execution_not_found');
});

test('an execution by a row', async (t) => {
  const runtime = await ownRuntime(functions, t);
  if (runtime === undefined) return;
  const tables = server.tables();
  const [databaseId, tableId] = ['events', 'notes'];
  await tables.create({ databaseId, name: 'Events' });
  const columns = [{ key: 'text', type: 'string', size: 100 }];
  await tables.createTable({ databaseId, tableId, name: 'Notes', columns });
  const functionId = ID.unique();
  const events = ['databases.*.tables.notes.rows.*.create'];
  await functions.create({ functionId, name: 'F', runtime, events });
  await deployed(functions, functionId, archive({ 'main.js': SHOWN }));
  await tables.createRow({ databaseId, tableId, rowId: 'one', data: { text: 'seen' } });
  const found = await ended(functionId);
  assert.deepEqual([found.trigger, found.status], ['event', 'completed']);
  const [headers, row] = found.logs.split('\n').slice(0, 2).map((line) => JSON.parse(line));
  const event = 'databases.events.tables.notes.rows.one.create';
  assert.deepEqual(headers, { trigger: 'event', event });
  assert.equal(row.text, 'seen');
});

test('an execution by the clock', async (t) => {
  const runtime = await ownRuntime(functions, t);
  if (runtime === undefined) return;
  const functionId = ID.unique();
  await functions.create({ functionId, name: 'F', runtime, schedule: '* * * * *' });
  await deployed(functions, functionId, archive({ 'main.js': SHOWN }));
  const found = await ended(functionId);
  assert.deepEqual([found.trigger, found.status], ['schedule', 'completed']);
  await functions.delete({ functionId });
});
