// Every kept report at the width of a phone, a tablet and a desk: nothing cut, axe clean.

import AxeBuilder from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const RESULTS = fileURLToPath(new URL('../results', import.meta.url));
// The last is left for axe.
const WIDTHS = [1440, 820, 390];
const PAGES = [
  'index.html',
  ...readdirSync(RESULTS)
    .map((name) => `${name}/report.html`)
    .filter((file) => existsSync(path.join(RESULTS, file))),
];

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // Root has no sandbox, and CI is root.
    args: ['--no-sandbox', '--disable-gpu'],
  });
});
after(() => browser?.close());

/** What ends right of the window and lies in nothing that scrolls to it. */
const cutOff = () => {
  const scrolls = (element) =>
    element !== null &&
    (['auto', 'scroll'].includes(getComputedStyle(element).overflowX) ||
      scrolls(element.parentElement));
  return [...document.querySelectorAll('th, td, p, button, select, a, dd, h1, h2')]
    .filter((element) => element.checkVisibility() && !element.closest('.heard'))
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
    .filter((element) => !scrolls(element))
    .map((element) => element.outerHTML.slice(0, 120));
};

/** Tables wider than their place that the keyboard cannot scroll. */
const unreachable = () =>
  [...document.querySelectorAll('.wrap')]
    .filter((wrap) => wrap.scrollWidth > wrap.clientWidth && wrap.tabIndex < 0)
    .map((wrap) => wrap.outerHTML.slice(0, 120));

test('there are pages to look at', () => assert.ok(PAGES.length > 1, PAGES.join()));

for (const file of PAGES) {
  test(`${file} is whole at each width, and axe finds nothing`, async (t) => {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    t.after(() => context.close());
    const page = await context.newPage();
    await page.goto(pathToFileURL(path.join(RESULTS, file)).href);
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide} px wide in a window of ${width}`);
      assert.deepEqual(await page.evaluate(cutOff), [], `cut at ${width}`);
      assert.deepEqual(await page.evaluate(unreachable), [], `unreachable at ${width}`);
    }
    const { violations } = await new AxeBuilder({ page }).analyze();
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`);
    assert.deepEqual(found, []);
  });
}
