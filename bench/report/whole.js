// Whether a page is whole at the width of a phone, a tablet and a desk, and what axe finds in it.

import AxeBuilder from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

/** The last width is left for axe. */
const WIDTHS = [1440, 820, 390];

export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // Root has no sandbox, and CI is root.
    args: ['--no-sandbox', '--disable-gpu'],
  });

/** What of `place` ends right of the window and lies in nothing that scrolls to it. */
const cutOff = (place) => {
  const scrolls = (element) =>
    element !== null &&
    (['auto', 'scroll'].includes(getComputedStyle(element).overflowX) ||
      scrolls(element.parentElement));
  const kinds = 'th, td, p, li, pre, img, button, select, a, dd, h1, h2, h3';
  return [...document.querySelectorAll(`${place} :is(${kinds})`)]
    .filter((element) => element.checkVisibility() && !element.closest('.heard'))
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
    .filter((element) => !scrolls(element))
    .map((element) => element.outerHTML.slice(0, 120));
};

/** Boxes of `place` that scroll and that the keyboard cannot reach. */
const unreachable = (place) =>
  [...document.querySelectorAll(`${place} :is(.wrap, .table-wrapper, pre > code)`)]
    .filter((box) => box.scrollWidth > box.clientWidth && box.tabIndex < 0)
    .map((box) => box.outerHTML.slice(0, 120));

/** Charts learn of another width from an observer and are drawn in a frame after that. */
const drawn = () =>
  new Promise((resume) => {
    const after = (frames) =>
      frames === 0 ? resume() : requestAnimationFrame(() => after(frames - 1));
    after(4);
  });

/**
 * Nothing of `place`, a selector, is cut or out of reach at any of the widths.
 * @throws AssertionError with the first lines of what is
 */
export async function assertWhole(page, place) {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    await page.evaluate(drawn);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} px wide in a window of ${width}`);
    assert.deepEqual(await page.evaluate(cutOff, place), [], `cut at ${width}`);
    assert.deepEqual(await page.evaluate(unreachable, place), [], `unreachable at ${width}`);
  }
}

/** @throws AssertionError with each rule that axe finds broken, and the first place */
export async function assertAccessible(page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`);
  assert.deepEqual(found, []);
}
