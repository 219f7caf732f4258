// The newest kept report of each kind at the width of a phone, a tablet and a desk: nothing cut, axe
// clean. The older ones of a kind were written by the same page.

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { assertAccessible, assertWhole, launch } from './whole.js';

const RESULTS = fileURLToPath(new URL('../results', import.meta.url));
/** Names begin with the time of the run, so that the last of a kind is the newest. */
const NEWEST = new Map(
  readdirSync(RESULTS)
    .sort()
    .map((name) => [name.replace(/^.*?Z-/, ''), `${name}/report.html`])
    .filter(([, file]) => existsSync(path.join(RESULTS, file))),
);
const PAGES = ['index.html', ...NEWEST.values()];

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

test('there are pages to look at', () => assert.ok(PAGES.length > 1, PAGES.join()));

for (const file of PAGES) {
  test(`${file} is whole at each width, and axe finds nothing`, async (t) => {
    const context = await browser.newContext();
    t.after(() => context.close());
    const page = await context.newPage();
    await page.goto(pathToFileURL(path.join(RESULTS, file)).href);
    await assertWhole(page, 'body');
    await assertAccessible(page);
  });
}
