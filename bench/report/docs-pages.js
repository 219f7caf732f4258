// Every page of the documentation's site at three widths, and axe over one page of each kind.
// `cargo xtask full` builds the site, which TIDEMARK_DOCS names, and runs this.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { assertAccessible, assertWhole, launch } from './whole.js';

const SITE = process.env.TIDEMARK_DOCS;
if (!SITE) throw new Error('TIDEMARK_DOCS names the folder of the built site');
/** The parts of mdBook's own that no reader opens. */
const PARTS = ['toc.html', '404.html'];
const PAGES = readdirSync(SITE, { recursive: true })
  .filter((file) => file.endsWith('.html') && !PARTS.includes(file))
  .sort();
/** A page with tables, code, pictures and each part of the navigation, from every folder. */
const HEARD = PAGES.filter(
  (file, place) => place === 0 || path.dirname(file) !== path.dirname(PAGES[place - 1]),
);

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

async function open(t, file) {
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(pathToFileURL(path.join(SITE, file)).href);
  return page;
}

test('every page is whole at each width', async (t) => {
  assert.ok(PAGES.length > 40, PAGES.join());
  const page = await open(t, PAGES[0]);
  for (const file of PAGES) {
    await page.goto(pathToFileURL(path.join(SITE, file)).href);
    await assert.doesNotReject(assertWhole(page, 'main'), file);
  }
});

for (const file of HEARD) {
  test(`axe finds nothing in ${file}`, async (t) => {
    await assertAccessible(await open(t, file));
  });
}

test('the navigation opens by the keyboard', async (t) => {
  const page = await open(t, PAGES[0]);
  await page.setViewportSize({ width: 390, height: 900 });
  const toggle = page.locator('#mdbook-sidebar-toggle');
  const isOpen = () => page.locator('#mdbook-sidebar-toggle-anchor').isChecked();
  const before = await isOpen();
  await toggle.focus();
  await page.keyboard.press('Enter');
  assert.equal(await isOpen(), !before);
});
