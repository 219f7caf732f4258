// The page on what of the SDK is served, beside the SDK, the table of routes and the server itself.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { methods, PAGE, page } from './coverage.js';
import { Server } from './server.js';

let server;
before(async () => {
  server = await Server.start();
});
after(() => server.close());

test('the page is what coverage.js writes', () => {
  assert.equal(readFileSync(PAGE, 'utf8'), page(), 'run: node coverage.js');
});

test('no method of the SDK is passed over', () => {
  const all = methods();
  assert.ok(all.length > 300, `${all.length} methods`);
  assert.ok(all.every(({ verb, path }) => verb && path.startsWith('/')));
});

test('the server answers what the page says', async () => {
  const text = readFileSync(PAGE, 'utf8');
  const rows = [...text.matchAll(/^\| `\w+` \| `(\w+) ([^`]+)` \| (yes|\*\*no\*\*) \|$/gm)];
  assert.ok(rows.length > 80, `${rows.length} rows`);
  const wrong = [];
  for (const [, verb, path, said] of rows) {
    // No one asks: a caller that is not let in learns by the refusal that the route is there.
    const url = `${server.bootstrap.endpoint}${path.replace(/\{[^}]*\}/g, 'none')}`;
    const type = (await (await fetch(url, { method: verb })).json()).type;
    const isUnknown = [
      'general_not_implemented',
      'general_service_not_supported',
      'general_route_not_found',
    ].includes(type);
    // A path that is not served may look like one of an id that is.
    if (said === 'yes' && isUnknown) {
      wrong.push(`${verb} ${path}: ${type}`);
    }
  }
  assert.deepEqual(wrong, []);
});
