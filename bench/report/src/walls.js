// Wall clocks of the chosen number of requests, and the time saved.

import { chip, find, make, named } from './elements.js';
import { isPaced } from './run.js';
import { explain, wallOf } from './scale.js';
import * as words from './words.js';

export function renderWalls({ group, number, reference }) {
  const told = group.series
    .filter((series) => !isPaced(series))
    .map((series) => ({ series, wall: wallOf(series, number) }))
    .filter(({ wall }) => wall !== null);
  const longest = Math.max(...told.map(({ wall }) => wall.seconds));
  const base = wallOf(reference, number);
  find('walls-hint').textContent =
    `How long ${words.requests(number)} requests take at the rate of each, and what is saved ` +
    `against “${reference.title}”.`;
  const lines = told.map((one) => lineOf(one, { longest, base, number }));
  find('walls-body').replaceChildren(...lines);
}

function lineOf({ series, wall }, { longest, base, number }) {
  const share = Math.max((100 * wall.seconds) / longest, 0.3);
  return make(
    'div',
    { class: `wall ink-${series.ink}` },
    make('div', { class: 'wall-name' }, named(series)),
    make(
      'div',
      { class: 'track', 'aria-hidden': 'true' },
      make('div', { class: 'fill', style: { width: `${share}%` } }),
    ),
    make(
      'div',
      { class: 'wall-text' },
      make('strong', {}, words.span(wall.seconds)),
      ' ',
      chip(wall.kind, explain(series, number)),
      ' ',
      make('span', { class: 'saved' }, savedText(wall, base)),
    ),
  );
}

function savedText(wall, base) {
  if (base === null || base.seconds === wall.seconds) return '';
  const saved = base.seconds - wall.seconds;
  return saved > 0
    ? `saves ${words.span(saved)}, ${words.times(base.seconds / wall.seconds)} as fast`
    : `takes ${words.span(-saved)} more`;
}
