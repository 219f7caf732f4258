// Functions that a guest executes from a page: what it gets, and what it never sees.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { archive, deployed, ownRuntime } from '../node/deployment.js';
import { poll, Server } from '../node/server.js';
import { Browser } from './browser.js';

const HANDLER = `module.exports = async ({ req, res, log, error }) => {
  log('SECRET of the log')
  error('SECRET of the errors')
  if (req.path === '/throw') throw new Error('SECRET of the stack')
  const { 'x-appwrite-key': key, ...headers } = req.headers
  const { method, path, bodyText: text } = req
  return res.json({ headers, hasKey: key !== '', method, path, text }, 201, { 'x-own': 'a' })
}`;

let server;
let functions;
let browser;
let page;
let skipped;
before(async () => {
  server = await Server.start();
  functions = server.functions();
  const skip = (why) => (skipped = why);
  const runtime = await ownRuntime(functions, { skip });
  if (runtime === undefined) return;
  const bytes = archive({ 'main.js': HANDLER });
  for (const [functionId, more] of [
    ['open', { execute: ['any'] }],
    ['guests', { execute: ['guests'] }],
    ['closed', {}],
    ['users', { execute: ['users'] }],
    ['off', { execute: ['any'], enabled: false }],
  ]) {
    await functions.create({ functionId, name: functionId, runtime, ...more });
    await deployed(functions, functionId, bytes);
  }
  await functions.create({ functionId: 'empty', name: 'empty', runtime, execute: ['any'] });
  browser = await Browser.start(server.bootstrap);
  page = await browser.page('localhost');
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** A test that is skipped where functions are not executed. */
const executed = (name, body) =>
  test(name, async (t) => (skipped === undefined ? body() : t.skip(skipped)));

const execute = (call) => page.evaluate((call) => outcome(functions.createExecution(call)), call);

describe('a guest on a page', () => {
  executed('executes a function and gets its answer', async () => {
    for (const functionId of ['open', 'guests']) {
      const { answer, error } = await execute({
        functionId,
        body: 'é "x"',
        xpath: '/way?a=b',
        method: 'PUT',
        headers: { 'x-mine': 'm', 'x-appwrite-key': 'forged', 'x-appwrite-user-id': 'forged' },
      });
      assert.equal(error, undefined);
      const { status, responseStatusCode, logs, errors, trigger } = answer;
      assert.deepEqual([status, responseStatusCode, trigger], ['completed', 201, 'http']);
      assert.deepEqual([logs, errors], ['', '']);
      const seen = JSON.parse(answer.responseBody);
      assert.deepEqual([seen.method, seen.path, seen.text], ['PUT', '/way', 'é "x"']);
      assert.deepEqual([seen.headers['x-mine'], seen.headers['x-appwrite-user-id']], ['m', '']);
      assert.ok(seen.hasKey);
      const own = answer.responseHeaders.find(({ name }) => name === 'x-own');
      assert.equal(own.value, 'a');
      assert.doesNotMatch(JSON.stringify(answer), /SECRET|ephemeral_/);
    }
  });

  executed('learns that a handler failed, and not why', async () => {
    const { answer } = await execute({ functionId: 'open', xpath: '/throw' });
    assert.deepEqual([answer.status, answer.responseStatusCode], ['failed', 500]);
    assert.doesNotMatch(JSON.stringify(answer), /SECRET/);
    // With a key it is all there.
    const call = { functionId: 'open', executionId: answer.$id };
    assert.match((await functions.getExecution(call)).errors, /SECRET of the stack/);
  });

  executed('reads no execution, its own neither', async () => {
    const { answer } = await execute({ functionId: 'open' });
    const other = await functions.createExecution({ functionId: 'open' });
    for (const executionId of [answer.$id, other.$id, 'none']) {
      const { error } = await page.evaluate(
        (call) => outcome(functions.getExecution(call)),
        { functionId: 'open', executionId },
      );
      assert.deepEqual([error.code, error.type], [404, 'execution_not_found']);
    }
    for (const queries of [[], ['{"method":"limit","values":[100]}']]) {
      const listed = await page.evaluate((call) => functions.listExecutions(call), {
        functionId: 'open',
        queries,
      });
      assert.deepEqual(listed, { total: 0, executions: [] });
    }
  });

  executed('queues an execution and sees nothing of its end', async () => {
    const { answer } = await execute({ functionId: 'open', body: 'later', async: true });
    assert.deepEqual([answer.status, answer.responseBody], ['waiting', '']);
    const call = { functionId: 'open', executionId: answer.$id };
    const ended = await poll('the execution', async () => {
      const found = await functions.getExecution(call);
      return ['completed', 'failed'].includes(found.status) ? found : null;
    });
    assert.match(ended.logs, /SECRET/);
    const seen = await page.evaluate((call) => outcome(functions.getExecution(call)), call);
    assert.equal(seen.error.type, 'execution_not_found');
  });

  for (const [what, call, code, type] of [
    ['an absent function', { functionId: 'none' }, 404, 'function_not_found'],
    ['one for keys', { functionId: 'closed' }, 401, 'user_unauthorized'],
    ['one for users', { functionId: 'users' }, 401, 'user_unauthorized'],
    ['one that is disabled', { functionId: 'off' }, 404, 'function_not_found'],
    ['one without a deployment', { functionId: 'empty' }, 404, 'deployment_not_found'],
    ...[
      ['an unknown method', { method: 'TRACE' }],
      ['a method that is none', { method: 5 }],
      ['a path that is too long', { xpath: `/${'x'.repeat(2048)}` }],
      ['a path that is none', { xpath: ['/'] }],
      ['a body that is no text', { body: { a: 1 } }],
      ['a number as a body', { body: 5 }],
      ['headers that are none', { headers: 'x' }],
      ['a header that is no text', { headers: { a: {} } }],
      ['a header with a line break', { headers: { a: 'b\r\nx-appwrite-key: c' } }],
      ['a header whose name is none', { headers: { 'a b': 'c' } }],
      ['headers that are too many', { headers: Object.fromEntries([...Array(101).keys()].map((n) => [`h${n}`, ''])) }],
      ['a word for async', { async: 'yes' }],
      ['a time that is none', { async: true, scheduledAt: 'tomorrow' }],
      ['a time that is past', { async: true, scheduledAt: '2020-01-01T00:00:00.000Z' }],
      ['a time to wait for', { scheduledAt: '2099-01-01T00:00:00.000Z' }],
    ].map(([what, more]) => {
      return [what, { functionId: 'open', ...more }, 400, 'general_argument_invalid'];
    }),
  ]) {
    executed(`reads why ${what} is refused`, async () => {
      const { answer, error } = await execute(call);
      assert.equal(answer, undefined, JSON.stringify(answer));
      assert.deepEqual([error.name, error.code, error.type], ['AppwriteException', code, type]);
      assert.notEqual(error.message, '');
    });
  }

  executed('reaches nothing else of a function', async () => {
    const { $id: executionId } = await functions.createExecution({ functionId: 'open' });
    const { deploymentId } = await functions.get({ functionId: 'open' });
    const one = '/functions/open';
    for (const [method, route] of [
      ['GET', '/functions'],
      ['GET', one],
      ['DELETE', one],
      ['GET', `${one}/variables`],
      ['GET', `${one}/deployments`],
      ['GET', `${one}/deployments/${deploymentId}`],
      ['GET', `${one}/deployments/${deploymentId}/download?type=source`],
      ['DELETE', `${one}/executions/${executionId}`],
      ['GET', '/tidemark/functions/open/options'],
      ['GET', '/tidemark/functions/open/output'],
    ]) {
      const [status, type] = await page.evaluate(async ([method, route]) => {
        const answer = await ask(route, { method });
        return [answer.status, (await answer.json()).type];
      }, [method, route]);
      assert.deepEqual([status, type], [401, 'general_unauthorized_scope'], `${method} ${route}`);
    }
  });

  executed('of another origin gets nothing', async () => {
    const { total } = await functions.listExecutions({ functionId: 'open' });
    const own = await browser.page('evil.example');
    const { error } = await own.evaluate(
      (call) => outcome(functions.createExecution(call)),
      { functionId: 'open' },
    );
    assert.equal(error.name, 'TypeError');
    assert.equal((await functions.listExecutions({ functionId: 'open' })).total, total);
  });
});
