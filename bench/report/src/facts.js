// What is told in words: the three numbers, noise, parameters.

import { chip, find, make, named, table } from './elements.js';
import { subjectOf } from './run.js';
import { explain, priceOf, rateOf, wallOf } from './scale.js';
import * as words from './words.js';

const FLOOR =
  'The floor is a server that does nothing but answer the same bytes: what client, network and ' +
  'HTTP library cost by themselves, which no cache can undercut.';
const PUBLISHED =
  'Published figures were measured by others on another machine: such a ratio says how large a ' +
  'difference is, not which part of it is the software.';

/** The numbers of the chosen comparison: ratio, time saved, what a unit of money buys. */
export function renderHero({ group, number, reference }) {
  const subject = heroOf(group, reference);
  const cards = [];
  const [own, other] = [subject.points_us.p50, reference.points_us.p50];
  if (subject !== reference && own && other) {
    const ratio = other / own;
    const how = ratio >= 1 ? 'faster' : 'slower';
    cards.push(
      card(
        words.times(Math.max(ratio, 1 / ratio)),
        chip(kindOf(subject, reference)),
        `${how} at the median: `,
        named(subject),
        ` against `,
        named(reference),
      ),
    );
  }
  const [wall, base] = [wallOf(subject, number), wallOf(reference, number)];
  if (subject !== reference && wall && base) {
    const saved = base.seconds - wall.seconds;
    cards.push(
      card(
        words.span(Math.abs(saved)),
        chip(base.kind, explain(reference, number)),
        `${saved >= 0 ? 'saved' : 'lost'} over ${words.requests(number)} requests`,
      ),
    );
  }
  const price = priceOf(rateOf(subject), Number(find('price-month').value));
  if (subject === reference || cards.length < 2) {
    cards.push(card(words.rate(rateOf(subject)), chip(kindOf(subject, subject)), named(subject)));
  }
  if (price?.perUnit && !find('price').hidden) {
    const currency = find('price-server').selectedOptions[0]?.textContent.split(' ').pop() ?? '';
    const unit = currency === 'price' ? '' : currency;
    cards.push(
      card(
        words.requests(price.perUnit),
        chip('extrapolated'),
        `requests for 1 ${unit || 'of your currency'}, `,
        named(subject),
        `, the server busy all month: ${words.money(price.billion, unit)} a billion`,
      ),
    );
  }
  if ([subject, reference].some(({ source }) => source === 'quoted')) {
    cards.push(make('p', { class: 'hint' }, PUBLISHED));
  }
  if (group.series.some(({ role }) => role === 'floor')) {
    cards.push(make('p', { class: 'hint' }, FLOOR));
  }
  find('hero').replaceChildren(...cards);
}

/** The subject, or the fastest other series when the reader compares the subject itself. */
function heroOf(group, reference) {
  const subject = subjectOf(group);
  if (subject !== reference) return subject;
  return group.series.find((series) => series !== reference) ?? subject;
}

const kindOf = (...series) =>
  series.some(({ source }) => source === 'quoted') ? 'quoted' : 'measured';

const card = (number, tag, ...said) =>
  make(
    'div',
    { class: 'number-card' },
    make('p', { class: 'big' }, number, ' ', tag),
    make('p', {}, said),
  );

const NOISE = {
  odd_to_even: 'odd / even samples, p50',
  second_to_first: 'second / first half, p50',
  again: 'the same again, rate',
};

export function renderNoise({ group }) {
  const measured = group.series.filter((series) => series.noise);
  const kinds = Object.keys(NOISE).filter((key) =>
    measured.some(({ noise }) => noise[key] != null),
  );
  find('noise').hidden = kinds.length === 0;
  const rows = measured.map((series) => [
    named(series),
    ...kinds.map((kind) => series.noise[kind]?.toFixed(3) ?? '–'),
    series.errors === undefined ? '–' : words.count(series.errors),
    series.cpu_us === undefined ? '–' : words.latency(series.cpu_us),
    series.memory_mib === undefined ? '–' : `${words.count(series.memory_mib)} MiB`,
    series.hits_percent === undefined ? '–' : `${series.hits_percent.toFixed(1)} %`,
  ]);
  const heads = [
    'series',
    ...kinds.map((kind) => NOISE[kind]),
    'errors',
    'CPU of the server a request',
    'memory of the server',
    'from the cache',
  ];
  find('noise-body').replaceChildren(table('Noise, errors and costs', heads, rows));
}

export function renderParameters(run) {
  find('method').textContent = run.method;
  const lists = [
    ['Machine', run.machine],
    ['Parameters', run.parameters],
  ];
  find('parameters-body').replaceChildren(
    ...lists.map(([title, entries]) => {
      const lines = Object.entries(entries).flatMap(([key, value]) => [
        make('dt', {}, words.label(key)),
        make('dd', {}, words.value(value)),
      ]);
      return make('div', {}, make('h3', {}, title), make('dl', {}, lines));
    }),
  );
}
