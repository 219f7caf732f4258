// Pictures of the page for its documentation: `npm run screenshots` draws them again.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { template } from './build.js';
import { fill, loadRun, run } from './fixture.js';

const DESK = { viewport: { width: 1120, height: 760 } };
const PHONE = { viewport: { width: 390, height: 760 }, isMobile: true, hasTouch: true };
const OUT = new URL('./screenshots/', import.meta.url);

const pin = (page) => page.getByRole('button', { name: /^exact, p90:/ }).click();

/** Name, run, surroundings, and what is done before the picture is taken. */
const PICTURES = [
  ['desk-light', run, DESK, async () => {}],
  [
    'pinned-dark',
    run,
    { ...DESK, colorScheme: 'dark' },
    async (page) => {
      await page.locator('#percentiles').evaluate((section) => section.scrollIntoView());
      await pin(page);
    },
  ],
  [
    'race',
    run,
    DESK,
    async (page) => {
      await page.locator('#race').evaluate((section) => section.scrollIntoView());
      await page.locator('#race-play').click();
      await page.waitForFunction(() => {
        const counts = [...document.querySelectorAll('.lane-count')];
        return counts.some((count) => Number.parseInt(count.textContent, 10) >= 12);
      });
      await page.locator('#race-play').click();
    },
  ],
  ['load-dark', loadRun, { ...DESK, colorScheme: 'dark' }, async () => {}],
  [
    'phone',
    run,
    PHONE,
    async (page) => {
      await page.locator('#percentiles').evaluate((section) => section.scrollIntoView());
      await pin(page);
    },
  ],
];

const folder = await mkdtemp(path.join(tmpdir(), 'report-pictures-'));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  const page = await template();
  for (const [name, shown, options, prepare] of PICTURES) {
    const file = path.join(folder, `${name}.html`);
    await writeFile(file, fill(page, shown));
    const context = await browser.newContext({ ...options, reducedMotion: 'reduce' });
    const view = await context.newPage();
    await view.goto(pathToFileURL(file).href);
    await prepare(view);
    await view.screenshot({ path: new URL(`${name}.png`, OUT).pathname });
    await context.close();
  }
} finally {
  await browser.close();
  await rm(folder, { recursive: true, force: true });
}
