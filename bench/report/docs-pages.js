// Pages of the documentation's site at three widths, and axe over one page of each folder. By night
// (TIDEMARK_LANE) the widths are tried on every page.
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
/** The first page of every folder. */
const FOLDERS = PAGES.map((file) => path.dirname(file));
const FIRST = PAGES.filter((_, place) => FOLDERS.indexOf(FOLDERS[place]) === place);
const WIDE = process.env.TIDEMARK_LANE === 'night' ? PAGES : FIRST;

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

test('pages are whole at each width', async (t) => {
  assert.ok(PAGES.length > 40, PAGES.join());
  const page = await open(t, PAGES[0]);
  for (const file of WIDE) {
    await page.goto(pathToFileURL(path.join(SITE, file)).href);
    await assert.doesNotReject(assertWhole(page, 'main'), file);
  }
});

for (const file of FIRST) {
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
