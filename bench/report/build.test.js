import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { TEMPLATE, template } from './build.js';

test('the page that the binary holds is the one these sources make', async () => {
  const committed = await readFile(TEMPLATE, 'utf8');
  const built = await template();
  assert.ok(committed === built, 'run `npm run build` and commit the page');
});
