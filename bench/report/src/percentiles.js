// The table of percentiles: bars, a series singled out, a cell pinned with its callout.

import { find, make, named } from './elements.js';
import { POINTS, samplesOf } from './run.js';
import * as words from './words.js';

/** What of the table the reader has chosen; kept while the slider moves. */
const chosen = { isolated: null, pinned: null };

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
  pin(view, chosen.pinned);
}

/** Forgets what was pinned; another group has other series. */
export function forget() {
  Object.assign(chosen, { isolated: null, pinned: null });
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
      onclick: () => pin(view, chosen.pinned === button.dataset.key ? null : button.dataset.key),
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

/** Marks the cell of this key and says beside it what there is to say. Null takes the pin away. */
function pin(view, key) {
  const cells = [...find('percentiles-body').querySelectorAll('button')];
  const button = cells.find((one) => one.dataset.key === key) ?? null;
  chosen.pinned = button === null ? null : key;
  cells.forEach((one) => one.setAttribute('aria-pressed', String(one === button)));
  const callout = find('callout');
  callout.hidden = button === null;
  if (button === null) return;
  const [name, point] = key.split(' ');
  const series = view.group.series.find((one) => one.key === name);
  callout.replaceChildren(
    ...calloutOf(view, series, point, () => {
      pin(view, null);
      button.focus();
    }),
  );
  placeCallout(callout, button);
}

/** Below its cell where there is room, as wide as the screen on a phone. */
function placeCallout(callout, button) {
  const around = find('percentiles').getBoundingClientRect();
  const cell = button.getBoundingClientRect();
  const width = Math.min(340, around.width - 24);
  const left = Math.min(Math.max(cell.left - around.left, 12), around.width - width - 12);
  callout.style.setProperty('width', `${width}px`);
  callout.style.setProperty('left', `${left}px`);
  callout.style.setProperty('top', `${cell.bottom - around.top + 8}px`);
  const arrow = cell.left - around.left + cell.width / 2 - left;
  callout.style.setProperty('--arrow', `${Math.min(Math.max(arrow, 16), width - 16)}px`);
}

function calloutOf(view, series, point, close) {
  const us = series.points_us[point];
  const others = view.group.series.filter((one) => one !== series && one.points_us[point] != null);
  const lines = others.map((other) => {
    const ratio = other.points_us[point] / us;
    const how =
      ratio >= 1 ? `${words.times(ratio)} faster than` : `${words.times(1 / ratio)} slower than`;
    return make('li', {}, `${how} `, named(other), ` (${words.latency(other.points_us[point])})`);
  });
  return [
    make(
      'button',
      { type: 'button', class: 'close', 'aria-label': 'Take the pin away', onclick: close },
      '×',
    ),
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

/** Escape takes the pin away from wherever the focus is. */
export function unpinOnEscape(view) {
  if (chosen.pinned !== null) pin(view, null);
}
