// The report page: reads the run inside it and draws every section again when something is chosen.

import { readAddress, writeAddress } from './address.js';
import { prepareCharts, renderCharts } from './charts.js';
import { renderColumns } from './columns.js';
import { find, make } from './elements.js';
import { renderHero, renderNoise, renderParameters } from './facts.js';
import { renderPercentiles, setPins, unpinOnEscape } from './percentiles.js';
import { preparePrice, renderPrice } from './price.js';
import { prepareRace, renderRace } from './race.js';
import { read, referenceOf, subjectOf } from './run.js';
import { explain, PLACES, placeOf, requestsAt } from './scale.js';
import { markScrolling } from './scrolling.js';
import { renderTables } from './tables.js';
import { prepareTheme } from './theme.js';
import { renderWalls } from './walls.js';
import * as words from './words.js';

const run = read(find('run').textContent);
const view = { group: run.groups[0], reference: null, number: 0 };

/** How many requests the shown group was measured with: where the slider begins. */
const measuredOf = (group) => subjectOf(group).count;

/** What depends on the slider. */
function renderScaled() {
  renderHero(view);
  renderWalls(view);
  renderPrice(view);
  const subject = subjectOf(view.group);
  const kind = view.number === measuredOf(view.group) ? 'measured' : 'extrapolated';
  find('scale-value').textContent = words.requests(view.number);
  find('scale-kind').className = `chip ${kind}`;
  find('scale-kind').textContent = explain(subject, view.number);
  find('scale').setAttribute(
    'aria-valuetext',
    `${words.requests(view.number)} requests, ${explain(subject, view.number)}`,
  );
  for (const stop of find('stops').children) {
    stop.setAttribute('aria-pressed', String(Number(stop.dataset.number) === view.number));
  }
  markScrolling();
}

/** What depends on the group and on the theme. */
function renderGroup() {
  renderPercentiles(view);
  renderCharts(view);
  renderNoise(view);
  renderScaled();
}

function setNumber(number) {
  view.number = number;
  find('scale').value = String(placeOf(number));
  renderScaled();
}

function renderStops() {
  const measured = measuredOf(view.group);
  const numbers = [
    [measured, `${words.requests(measured)}, measured`],
    [1e6, '1 million'],
    [1e8, '100 million'],
    [1e10, '10 billion'],
  ];
  find('stops').replaceChildren(
    ...numbers.map(([number, text]) =>
      make(
        'button',
        { type: 'button', 'data-number': number, onclick: () => setNumber(number) },
        text,
      ),
    ),
  );
}

/** Shows a group, with the series that others are compared with and the pins an address names. */
function chooseGroup(place, { reference, pins } = { reference: null, pins: [] }) {
  view.group = run.groups[place];
  view.reference =
    view.group.series.find(({ key }) => key === reference) ?? referenceOf(view.group);
  setPins(pins);
  find('reference').replaceChildren(
    ...view.group.series.map((series, at) =>
      make('option', { value: at, selected: series === view.reference }, series.title),
    ),
  );
  view.number = measuredOf(view.group);
  renderStops();
  renderRace(view);
  renderGroup();
  setNumber(view.number);
}

function prepareGroups() {
  find('group-field').hidden = run.groups.length < 2;
  find('group').replaceChildren(
    ...run.groups.map(({ title }, place) => make('option', { value: place }, title)),
  );
  find('group').addEventListener('change', (event) => {
    const place = Number(event.target.value);
    writeAddress({ group: run.groups[place].key, reference: null });
    chooseGroup(place);
  });
  find('reference').addEventListener('change', (event) => {
    view.reference = view.group.series[Number(event.target.value)];
    writeAddress({ reference: view.reference.key });
    renderScaled();
  });
}

function prepareScale() {
  const scale = find('scale');
  scale.max = String(PLACES);
  scale.addEventListener('input', () => {
    view.number = requestsAt(Number(scale.value), measuredOf(view.group));
    renderScaled();
  });
}

function prepareSections() {
  const titles = [...document.querySelectorAll('main h2')];
  const links = titles
    .filter((title) => !title.closest('section').hidden)
    .map((title) => {
      const { id } = title.closest('section');
      return make('a', { href: `#${id}` }, title.dataset.short ?? title.textContent);
    });
  find('sections').replaceChildren(...links);
}

find('title').textContent = run.title;
find('lead').textContent = words.grouped(run.lead);
prepareTheme(renderGroup);
prepareGroups();
prepareScale();
preparePrice(run, renderScaled);
prepareRace(() => view);
prepareCharts();
renderColumns(run);
renderTables(run);
renderParameters(run);
const address = readAddress(window.location.search);
const addressed = run.groups.findIndex(({ key }) => key === address.group);
find('group').value = String(Math.max(addressed, 0));
chooseGroup(Math.max(addressed, 0), address);
prepareSections();
window.addEventListener('resize', markScrolling);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') unpinOnEscape(view);
});
