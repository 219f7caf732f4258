// Tables of texts that a run brings along: what was to be reached, what others have published.

import { find, make, table } from './elements.js';
import * as words from './words.js';

/** Words that say whether a target is met stand in colour, and are read as they are. */
const WORDS = new Map([
  ['yes', 'good'],
  ['no', 'bad'],
]);

const cell = (text) => make('td', { class: WORDS.get(text) }, words.grouped(text));

export function renderTables(run) {
  const sections = (run.tables ?? []).map(({ title, heads, rows, note }, place) => {
    const id = `table-${place}`;
    const lines = rows.map(([first, ...rest]) => [first, ...rest.map(cell)]);
    return make(
      'section',
      { id, class: 'card', 'aria-labelledby': `${id}-title` },
      make('h2', { id: `${id}-title` }, title),
      make('div', { class: 'wrap' }, table(title, heads, lines)),
      make('p', { class: 'hint' }, note),
    );
  });
  find('tables').replaceChildren(...sections);
}
