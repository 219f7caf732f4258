// The published load test: five columns and the price per request, ours beside theirs.

import { chip, find, make, table } from './elements.js';
import * as words from './words.js';

/** Sum of the rates that are there, and the price of one request a second kept up all month. */
export function priceOfColumns({ rates, monthly }, wanted = rates.map((_, place) => place)) {
  const taken = wanted.map((place) => rates[place]);
  if (taken.some((rate) => rate === null || rate === undefined) || !monthly) return null;
  return monthly / taken.reduce((sum, rate) => sum + rate, 0);
}

export function renderColumns(run) {
  const { columns } = run;
  find('columns').hidden = !columns;
  if (!columns) return;
  const { titles, shared } = columns;
  const rows = columns.rows.map((row) => [
    make('span', {}, row.name, ' ', chip(row.source)),
    ...titles.map((_, place) => words.rate(row.rates[place])),
    words.money(row.monthly ?? null, row.currency ?? ''),
    words.money(priceOfColumns(row), row.currency ?? ''),
    words.money(priceOfColumns(row, shared), row.currency ?? ''),
  ]);
  const heads = [
    'system',
    ...titles,
    'a month',
    'per request/s, all five',
    `per request/s, first ${shared.length}`,
  ];
  const filled = table('The published load test', heads, rows);
  const wide = make('div', { class: 'wrap columns' }, filled);
  find('columns-body').replaceChildren(wide, make('p', { class: 'hint' }, columns.note));
}
