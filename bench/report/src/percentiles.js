// The table of percentiles: bars, a series singled out, cells pinned with what they say.

import { writeAddress } from './address.js';
import { find, make, named } from './elements.js';
import { POINTS, samplesOf } from './run.js';
import * as words from './words.js';

/** What of the table the reader has chosen; kept while the slider moves. */
const chosen = { isolated: null, pinned: [] };

/** Draws table and legend; `chosen` survives when the new group has the same series. */
export function renderPercentiles(view) {
  const { group } = view;
  const points = POINTS.filter((point) => group.series.some((one) => one.points_us[point] != null));
  const bounds = boundsOf(group, points);
  const rows = points.map((point) => rowOf(view, point, bounds));
  const heads = group.series.map((series) =>
    make(
      'th',
      { scope: 'col', class: `ink-${series.ink}`, 'data-place': series.place },
      named(series),
      make('small', {}, countText(series)),
    ),
  );
  const table = make(
    'table',
    { class: 'percentiles', onkeydown: moveFocus },
    make('caption', { class: 'heard' }, `Latency of ${group.title} by percentile`),
    make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'point'), heads)),
    make('tbody', {}, rows),
  );
  table.addEventListener('mouseleave', () => isolate(null));
  find('percentiles-body').replaceChildren(table);
  find('legend').replaceChildren(...group.series.map(legendOf));
  const first = table.querySelector('button');
  if (first) first.tabIndex = 0;
  renderPins(view);
}

/** Takes these pins, keys of cells, in place of the present ones. */
export function setPins(keys) {
  Object.assign(chosen, { isolated: null, pinned: keys });
}

const countText = ({ count, source }) =>
  `${source === 'quoted' ? 'quoted, ' : ''}${count ? `${words.requests(count)} samples` : ''}`;

function boundsOf(group, points) {
  const all = group.series.flatMap((one) => points.map((point) => one.points_us[point]));
  const known = all.filter((us) => us > 0);
  return { least: Math.min(...known) / 1.6, greatest: Math.max(...known) };
}

function rowOf(view, point, bounds) {
  const cells = view.group.series.map((series) => cellOf(view, series, point, bounds));
  return make('tr', {}, make('th', { scope: 'row' }, point), cells);
}

function cellOf(view, series, point, { least, greatest }) {
  const us = series.points_us[point];
  if (us == null) return make('td', { 'data-place': series.place }, '–');
  const share = Math.log(us / least) / Math.log(greatest / least);
  const button = make(
    'button',
    {
      type: 'button',
      tabindex: '-1',
      'aria-pressed': 'false',
      'aria-label': `${series.title}, ${point}: ${words.latency(us)}`,
      'data-key': `${series.key} ${point}`,
      onmouseenter: () => isolate(series.place),
      onfocus: () => isolate(series.place),
      onblur: () => isolate(null),
      onclick: () => togglePin(view, button.dataset.key),
    },
    make('span', { class: 'bar', style: { width: `${(100 * share).toFixed(1)}%` } }),
    make('span', { class: 'number' }, words.latency(us)),
  );
  return make('td', { class: `ink-${series.ink}`, 'data-place': series.place }, button);
}

function legendOf(series) {
  const button = make(
    'button',
    {
      type: 'button',
      'aria-pressed': 'false',
      onmouseenter: () => isolate(series.place),
      onmouseleave: () => isolate(null),
      onfocus: () => isolate(series.place),
      onblur: () => isolate(null),
      onclick: () => {
        chosen.isolated = chosen.isolated === series.place ? null : series.place;
        for (const other of find('legend').children) {
          other.setAttribute('aria-pressed', String(other === button && chosen.isolated !== null));
        }
        isolate(chosen.isolated);
      },
    },
    named(series),
  );
  return button;
}

/** Dims every series but one; null shows what the legend has fixed, or all. */
function isolate(place) {
  const shown = place ?? chosen.isolated;
  for (const cell of find('percentiles-body').querySelectorAll('[data-place]')) {
    cell.classList.toggle('dim', shown !== null && Number(cell.dataset.place) !== shown);
  }
  document.dispatchEvent(new CustomEvent('isolate', { detail: shown }));
}

/** Arrow keys walk the cells as in a grid, so that a table of fifty cells is one tab stop. */
function moveFocus(event) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const step = steps[event.key];
  const from = event.target.closest('td');
  if (!step || !from) return;
  event.preventDefault();
  const table = event.currentTarget;
  let row = from.parentElement.rowIndex;
  let column = from.cellIndex;
  let next = null;
  do {
    row += step[0];
    column += step[1];
    next = table.rows[row]?.cells[column] ?? null;
  } while (next !== null && next.querySelector('button') === null && next.tagName === 'TD');
  const button = next?.querySelector('td button');
  if (!button) return;
  event.target.tabIndex = -1;
  button.tabIndex = 0;
  button.focus();
}

/** Pins the cell of this key, or takes its pin away. */
function togglePin(view, key) {
  const others = chosen.pinned.filter((one) => one !== key);
  chosen.pinned = others.length < chosen.pinned.length ? others : [...chosen.pinned, key];
  renderPins(view);
}

/** Marks pinned cells and says below the table what each means; drops pins of no cell. */
function renderPins(view) {
  const cells = [...find('percentiles-body').querySelectorAll('button')];
  const cellOfKey = new Map(cells.map((cell) => [cell.dataset.key, cell]));
  chosen.pinned = chosen.pinned.filter((key) => cellOfKey.has(key));
  for (const cell of cells) {
    cell.setAttribute('aria-pressed', String(chosen.pinned.includes(cell.dataset.key)));
  }
  const cards = chosen.pinned.map((key) => {
    const [name, point] = key.split(' ');
    const series = view.group.series.find((one) => one.key === name);
    const unpin = () => {
      togglePin(view, key);
      cellOfKey.get(key).focus();
    };
    return make('div', { class: 'pin' }, pinText(view, series, point, unpin));
  });
  find('pins').replaceChildren(...cards);
  find('pins').hidden = cards.length === 0;
  writeAddress({ pins: chosen.pinned });
}

function pinText(view, series, point, unpin) {
  const us = series.points_us[point];
  const others = view.group.series.filter((one) => one !== series && one.points_us[point] != null);
  const lines = others.map((other) => {
    const ratio = other.points_us[point] / us;
    const how =
      ratio >= 1 ? `${words.times(ratio)} faster than` : `${words.times(1 / ratio)} slower than`;
    return make('li', {}, `${how} `, named(other), ` (${words.latency(other.points_us[point])})`);
  });
  const label = `Remove the pin of ${series.title}, ${point}`;
  return [
    make('button', { type: 'button', class: 'close', 'aria-label': label, onclick: unpin }, '×'),
    make('p', {}, named(series), ` · ${point} · `, make('strong', {}, words.latency(us))),
    make('p', { class: 'hint' }, meaning(series, point, us)),
    make('ul', {}, lines),
  ];
}

/** What a point says, in the samples' own numbers. */
function meaning(series, point, us) {
  const of = `${words.count(series.count)} ${series.source === 'quoted' ? 'quoted' : 'measured'}`;
  if (point === 'min') return `The fastest of ${of} requests.`;
  if (point === 'max') return `The slowest of ${of} requests.`;
  if (point === 'mean') return `The mean of ${of} requests.`;
  const share = Number(point.slice(1));
  const beyond = Math.floor(series.count * (1 - share / 100));
  const text = `Of ${of} requests ${share} % took no longer, ${words.count(beyond)} did.`;
  const kept = samplesOf(series);
  if (kept === null || kept.length === series.count) return text;
  const above = kept.reduce((sum, sample) => sum + (sample > us ? 1 : 0), 0);
  return `${text} Of the ${words.count(kept.length)} kept in this file ${words.count(above)} did.`;
}

/** Escape removes the newest pin from wherever the focus is. */
export function unpinOnEscape(view) {
  if (chosen.pinned.length > 0) togglePin(view, chosen.pinned.at(-1));
}
