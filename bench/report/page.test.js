// The page in a real browser, from disk, on a profile of its own.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { template } from './build.js';
import { fill, loadRun, nearestRank, run, tablesRun } from './fixture.js';
import { decode } from './src/codes.js';

const DESK = { width: 1200, height: 900 };
const PHONE = { width: 375, height: 720 };

let browser;
let folder;
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'report-page-'));
  const page = await template();
  await writeFile(path.join(folder, 'ttl.html'), fill(page, run));
  await writeFile(path.join(folder, 'load.html'), fill(page, loadRun));
  await writeFile(path.join(folder, 'tables.html'), fill(page, tablesRun));
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // Root has no sandbox, and CI is root.
    args: ['--no-sandbox'],
  });
});
after(async () => {
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Opens a page; whatever it complains of, and whatever it asks for, fails the test. */
async function open(t, { file = 'ttl.html', ...options } = {}) {
  const context = await browser.newContext({ viewport: DESK, ...options });
  const page = await context.newPage();
  const url = pathToFileURL(path.join(folder, file)).href;
  const wrong = [];
  page.on('console', (message) => wrong.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => wrong.push(`error: ${error.stack}`));
  page.on('request', (request) => {
    if (request.url().split('?')[0] !== url) wrong.push(`request: ${request.url()}`);
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(wrong, []);
  });
  await page.goto(url);
  return page;
}

const textOf = (page, selector) => page.locator(selector).innerText();

/** Moves the slider as a hand would: to a place, with the event that follows. */
const slide = (page, place) =>
  page.locator('#scale').evaluate((scale, to) => {
    scale.value = String(to);
    scale.dispatchEvent(new Event('input', { bubbles: true }));
  }, place);

test('the slider begins at what was measured and marks every other number', async (t) => {
  const page = await open(t);
  assert.equal(await textOf(page, '#scale-value'), '4,001');
  assert.equal(await textOf(page, '#scale-kind'), 'measured');
  const kinds = () => page.locator('.wall .chip').allInnerTexts();
  const [uncached, exact] = await kinds();
  assert.equal(exact, 'measured');
  assert.equal(uncached, 'extrapolated', 'it was measured with 4,000 requests, not 4,001');
  await slide(page, 600);
  assert.equal(await textOf(page, '#scale-value'), '10 billion');
  assert.match(await textOf(page, '#scale-kind'), /^extrapolated × [\d,]+ from measured 4,001$/);
  assert.deepEqual(new Set(await kinds()), new Set(['extrapolated']));
});

test('an extrapolated wall time is the measured one in proportion', async (t) => {
  const page = await open(t);
  await page.getByRole('button', { name: '1 million' }).click();
  const [, exact] = run.groups[0].series;
  const seconds = (exact.wall_ms / 1000) * (1e6 / exact.count);
  const shown = await textOf(page, '.wall:nth-child(2) strong');
  const [minutes, rest] = shown.match(/\d+/g).map(Number);
  assert.ok(Math.abs(60 * minutes + rest - seconds) <= 1, `${shown} for ${seconds} s`);
});

test('quoted figures are quoted at their own number of requests only', async (t) => {
  const page = await open(t);
  assert.match(
    await textOf(page, '#percentiles-body thead'),
    /Appwrite, published, no cache\s+quoted, 100,000/,
  );
  const last = page.locator('.wall').last();
  assert.match(await last.locator('.chip').getAttribute('title'), /from quoted 100,000$/);
  const prices = await page.locator('#price-body tr').last().innerText();
  assert.match(prices, /quoted/);
});

test('percentiles of the page are those of an independent count over its samples', async (t) => {
  const page = await open(t);
  const [, exact] = run.groups[0].series;
  const samples = decode(exact.samples.codes);
  for (const [point, share] of [
    ['p50', 0.5],
    ['p90', 0.9],
    ['p99', 0.99],
  ]) {
    const name = await page
      .getByRole('button', { name: new RegExp(`^exact, ${point}:`) })
      .getAttribute('aria-label');
    const shown = Number(name.match(/([\d.]+) µs/)[1]);
    assert.ok(Math.abs(shown / nearestRank(samples, share) - 1) < 0.01, name);
  }
});

test('pointing at a cell singles its series out, a click pins it with what it means', async (t) => {
  const page = await open(t);
  const cell = page.getByRole('button', { name: /^exact, p99:/ });
  await cell.hover();
  const faded = () => page.locator('#percentiles-body td.dim').count();
  assert.ok((await faded()) >= 27, 'the other series step back');
  await cell.click();
  await page.mouse.move(5, 5);
  assert.equal(await faded(), 0);
  assert.equal(await cell.getAttribute('aria-pressed'), 'true');
  const pinned = page.locator('.pin');
  const [, exact] = run.groups[0].series;
  const beyond = Math.floor(exact.count / 100);
  assert.match(await pinned.innerText(), new RegExp(`99 % took no longer, ${beyond} did`));
  assert.match(await pinned.innerText(), /faster than\s+no cache/);
  await cell.click();
  assert.equal(await pinned.count(), 0);
});

test('several cells are pinned at once, and the address brings them back', async (t) => {
  const page = await open(t);
  await page.getByRole('button', { name: /^exact, p99:/ }).click();
  await page.getByRole('button', { name: /^no cache, p50:/ }).click();
  await page.selectOption('#reference', { label: 'floor' });
  const said = await page.locator('.pin').allInnerTexts();
  assert.equal(said.length, 2);
  await page.reload();
  assert.deepEqual(await page.locator('.pin').allInnerTexts(), said);
  assert.equal(await page.locator('#reference option:checked').innerText(), 'floor');
  await page.locator('.pin .close').first().click();
  assert.deepEqual(await page.locator('.pin').allInnerTexts(), [said[1]]);
  assert.doesNotMatch(page.url(), /exact/);
});

test('an address that names no group, series or cell shows the page as it begins', async (t) => {
  const page = await open(t);
  await page.goto(`${page.url()}?group=none&reference=none&pins=none+p50,exact+p12`);
  assert.equal(await page.locator('.pin').count(), 0);
  assert.equal(await textOf(page, '#scale-value'), '4,001');
});

test('the first comparison is with the published figures, by their name', async (t) => {
  const page = await open(t);
  const hero = await textOf(page, '#hero');
  assert.match(hero, /against\s+Appwrite, published, no cache/);
  assert.match(hero, /measured by others on another machine/);
  assert.match(hero, /The floor is a server that does nothing/);
  assert.match(hero, /requests for 1 EUR/);
});

test('the race is run by the measured samples, and ends', async (t) => {
  const page = await open(t);
  assert.equal(await textOf(page, '#race-play'), 'Start');
  const counts = () => page.locator('.lane-count').allInnerTexts();
  const atStart = new Set(await counts());
  assert.equal(atStart.size, 1);
  const goal = Number([...atStart][0].match(/^0 of ([\d,]+)$/)[1].replace(',', ''));
  assert.ok(goal >= 200, `${goal} requests`);
  await page.selectOption('#race-pace', { index: 0 });
  await page.locator('#race-play').click();
  await page.locator('#race-said').getByText('Over').waitFor();
  const [uncached, exact, , floor] = (await counts()).map((text) =>
    Number(text.match(/place (\d)/)[1]),
  );
  assert.ok(floor < uncached && exact < uncached, 'who is faster arrives first');
  assert.equal(await textOf(page, '#race-play'), 'Start');
  await page.locator('#race-reset').click();
  assert.deepEqual(new Set(await counts()), atStart);
});

test('a race can be halted, and goes on from there', async (t) => {
  const page = await open(t);
  await page.locator('#race-play').click();
  await page.waitForFunction(
    () => !document.querySelector('.lane-count').textContent.startsWith('0 '),
  );
  await page.locator('#race-play').click();
  const halted = await page.locator('.lane-count').allInnerTexts();
  await page.evaluate(
    () => new Promise((resume) => requestAnimationFrame(() => requestAnimationFrame(resume))),
  );
  assert.deepEqual(await page.locator('.lane-count').allInnerTexts(), halted);
});

test('the theme follows the system until the reader chooses one', async (t) => {
  const page = await open(t, { colorScheme: 'dark' });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await paper();
  await page.locator('#theme').click();
  assert.equal(await textOf(page, '#theme'), 'Theme: light');
  const light = await paper();
  assert.notEqual(light, dark);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.locator('#theme').click();
  assert.equal(await textOf(page, '#theme'), 'Theme: dark');
  assert.equal(await paper(), dark);
});

test('everything can be done from the keyboard', async (t) => {
  const page = await open(t);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.locator('#scale').focus();
  await page.keyboard.press('End');
  assert.equal(await textOf(page, '#scale-value'), '10 billion');
  await page.keyboard.press('ArrowLeft');
  assert.equal(await textOf(page, '#scale-value'), '9.73 billion');
  // The table is one stop; arrows walk its cells.
  await page.locator('#percentiles-body button[tabindex="0"]').focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowDown');
  const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label'));
  assert.match(await focused(), /^exact, p50:/);
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('.pin').count(), 1);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.pin').count(), 0);
  assert.match(await focused(), /^exact, p50:/, 'the focus stays');
  // Over cells that the quoted series lack.
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowDown']) {
    await page.keyboard.press(key);
  }
  assert.match(await focused(), /^Appwrite, published, no cache, p90:/);
});

test('a phone shows everything without scrolling sideways', async (t) => {
  const page = await open(t, { viewport: PHONE, hasTouch: true, isMobile: true });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(width, PHONE.width);
  const cell = page.getByRole('button', { name: /^exact, p50:/ });
  await cell.tap();
  const box = await page.locator('.pin').boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= PHONE.width, 'the pin fits');
  for (const control of await page.locator('button:visible, select:visible').all()) {
    const { height } = await control.boundingBox();
    assert.ok(height >= 24, `${await control.innerText()} is ${height} high`);
  }
});

test('every control and every chart has a name for who hears the page', async (t) => {
  const page = await open(t);
  const nameless = await page.evaluate(() => {
    const named = (element) =>
      element.getAttribute('aria-label') || element.labels?.length || element.textContent.trim();
    const controls = [...document.querySelectorAll('button, select, input, [role="img"]')];
    return controls.filter((control) => !named(control)).map((control) => control.outerHTML);
  });
  assert.deepEqual(nameless, []);
  assert.match(await page.locator('#chart-rate').getAttribute('aria-label'), /exact: [\d,]+\/s to/);
  const captions = await page.locator('table caption').count();
  assert.equal(captions, await page.locator('table').count());
});

test('another workload redraws everything, and pins do not survive it', async (t) => {
  const page = await open(t);
  await page.getByRole('button', { name: /^exact, p50:/ }).click();
  await page.selectOption('#group', { label: 'read one row, 32 connections, 4 cores' });
  assert.equal(await page.locator('.pin').count(), 0);
  assert.equal(await textOf(page, '#scale-value'), '4,000');
  assert.match(await textOf(page, '#walls-body'), /PocketBase/);
  assert.match(await textOf(page, '#race-lanes'), /32 connections, 8 drawn/);
});

test('the price of a request follows the server that is chosen', async (t) => {
  const page = await open(t);
  const ofExact = async () => {
    const text = await page.locator('#price-body tbody tr').nth(1).locator('td').nth(1).innerText();
    return Number(text.split(' ')[0]);
  };
  const [, exact] = run.groups[0].series;
  const perSecond = (exact.count * 1000) / exact.wall_ms;
  const wanted = (3.85 * 1e9) / (perSecond * (365.25 / 12) * 86_400);
  assert.ok(Math.abs((await ofExact()) / wanted - 1) < 0.01);
  await page.selectOption('#price-server', { index: 1 });
  assert.ok(Math.abs((await ofExact()) / wanted - 13.1 / 3.85) < 0.05);
  await page.locator('#price-month').fill('0');
  assert.equal(await ofExact(), 0);
});

test('a series that rested is in no race, no wall clock and no price', async (t) => {
  const page = await open(t, { file: 'load.html' });
  for (const place of ['#race-lanes', '#walls-body', '#price-body']) {
    const text = await textOf(page, place);
    assert.match(text, /PocketBase/, place);
    assert.doesNotMatch(text, /paced/, place);
  }
  assert.match(await textOf(page, '#percentiles-body'), /paced/);
});

test('prices begin with the server that has the cores of the group', async (t) => {
  const page = await open(t);
  const chosen = () => page.locator('#price-server').inputValue();
  assert.equal(await chosen(), '0');
  await page.selectOption('#group', { label: 'read one row, 32 connections, 4 cores' });
  assert.equal(await chosen(), '1');
  assert.equal(await page.locator('#price-month').inputValue(), '13.1');
  await page.selectOption('#price-server', { index: 0 });
  await page.selectOption('#group', { index: 0 });
  await page.selectOption('#group', { index: 1 });
  assert.equal(await chosen(), '0', 'what the reader chose stays');
});

test('the published table fits at a desk', async (t) => {
  const page = await open(t, { file: 'load.html', viewport: { width: 1120, height: 900 } });
  const [inner, outer] = await page
    .locator('#columns-body .wrap')
    .evaluate((wrap) => [wrap.scrollWidth, wrap.clientWidth]);
  assert.ok(inner <= outer, `${inner} on ${outer}`);
});

test('the published load test stands beside ours, functions left empty', async (t) => {
  const page = await open(t, { file: 'load.html' });
  const rows = await page.locator('#columns-body tbody tr').allInnerTexts();
  assert.match(rows[0], /measured\s+4,100\/s\s+36,635\/s\s+51,630\/s\s+–\s+–\s+3\.85 EUR\s+–/);
  assert.match(rows[1], /quoted\s+170\/s.*3\.85 EUR\s+0\.00376 EUR\s+0\.00459 EUR/s);
});

test('tables of texts stand above the charts, and their words are text', async (t) => {
  const page = await open(t, { file: 'tables.html' });
  const targets = page.locator('#table-0');
  assert.equal(await targets.locator('h2').innerText(), 'Targets');
  const rows = await targets.locator('tbody tr').allInnerTexts();
  assert.match(rows[0], /read by id, 1 client\s+≥ 7,000\/s\s+8,123\/s\s+yes/);
  assert.match(rows[2], /<b>PostgreSQL<\/b>/);
  assert.equal(await targets.locator('td.bad').innerText(), 'no');
  assert.match(await targets.locator('.hint').innerText(), /seed/);
  const links = await page.locator('#sections a').allInnerTexts();
  assert.ok(links.includes('Every operation'), links.join());
  assert.ok(!links.includes('Price'), 'a run without prices has no such section');
});

test('tables of texts fit a phone', async (t) => {
  const page = await open(t, { file: 'tables.html', viewport: PHONE });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= PHONE.width, `${width} px`);
});
