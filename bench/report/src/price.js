// Price per request, on a server of the price file or at a price that the reader types.

import { chip, find, make, named, table } from './elements.js';
import { coresOf, isPaced } from './run.js';
import { explain, priceOf, rateOf } from './scale.js';
import * as words from './words.js';

let prices = null;
/** Whether the reader has chosen a server; until then it is the nearest one to the group's. */
let isChosen = false;
let measured = null;

export function preparePrice(run, redraw) {
  prices = run.prices ?? null;
  find('price').hidden = prices === null;
  if (prices === null) return;
  measured = run;
  const options = prices.servers.map((server, place) =>
    make(
      'option',
      { value: place },
      `${server.name}: ${words.money(server.monthly, server.currency)}`,
    ),
  );
  find('price-server').replaceChildren(
    ...options,
    make('option', { value: 'own' }, 'my own price'),
  );
  find('price-server').addEventListener('change', () => {
    isChosen = true;
    const server = prices.servers[find('price-server').value];
    if (server) find('price-month').value = server.monthly;
    redraw();
  });
  find('price-month').addEventListener('input', () => {
    isChosen = true;
    find('price-server').value = 'own';
    redraw();
  });
}

/** Takes the server with as many cores as the group's had. */
function chooseServer(group) {
  const cores = coresOf(group, measured);
  const nearest = prices.servers.findIndex((server) => server.cores === cores);
  find('price-server').value = String(Math.max(nearest, 0));
  find('price-month').value = prices.servers[Math.max(nearest, 0)].monthly;
}

export function renderPrice({ group, number }) {
  if (prices === null) return;
  if (!isChosen) chooseServer(group);
  const monthly = Number(find('price-month').value);
  const server = prices.servers[find('price-server').value] ?? prices.servers[0];
  const { currency } = server;
  const busy = group.series.filter((series) => !isPaced(series));
  const rows = busy.flatMap((series) => {
    const price = priceOf(rateOf(series), monthly);
    if (price === null) return [];
    const kind = series.source === 'quoted' ? 'quoted' : 'measured';
    const isOwn = number === series.count;
    return [
      [
        named(series),
        make('span', {}, words.rate(rateOf(series)), ' ', chip(kind)),
        words.money(price.billion, currency),
        price.perUnit === null ? '–' : words.requests(price.perUnit),
        make(
          'span',
          {},
          words.money((price.billion * number) / 1e9, currency),
          ' ',
          chip(isOwn ? kind : 'extrapolated', explain(series, number)),
        ),
        words.money(price.perRate, currency),
      ],
    ];
  });
  find('price-body').replaceChildren(
    table(
      'Price per request by series',
      [
        'series',
        'rate',
        'a billion',
        `requests for 1 ${currency}`,
        `${words.requests(number)} requests`,
        'per request/s kept up',
      ],
      rows,
    ),
  );
  const loop =
    group.connections === 1
      ? ' One connection that waits for each answer leaves most of a server unused: these prices ' +
        'are upper bounds.'
      : '';
  find('price-hint').textContent =
    `A server of ${words.money(monthly, currency)} a month that does this alone, all month ` +
    `(365.25 / 12 days).${loop} Server prices: ${prices.source}.`;
}
