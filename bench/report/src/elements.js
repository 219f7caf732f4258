// The page's elements, made and found.

export const find = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is a string becomes text, never HTML. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'style')
      Object.entries(value).forEach(([k, v]) => element.style.setProperty(k, v));
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** The word that says where a number comes from. */
export const chip = (kind, title) => make('span', { class: `chip ${kind}`, title }, kind);

/** A table with a caption for readers who hear it. */
export function table(caption, heads, rows, attributes = {}) {
  const head = heads.map((text) => make('th', { scope: 'col' }, text));
  const lines = rows.map((cells) => {
    const [first, ...rest] = cells;
    return make(
      'tr',
      {},
      make('th', { scope: 'row' }, first),
      rest.map((cell) => (cell instanceof HTMLTableCellElement ? cell : make('td', {}, cell))),
    );
  });
  return make(
    'table',
    attributes,
    make('caption', { class: 'heard' }, caption),
    make('thead', {}, make('tr', {}, head)),
    make('tbody', {}, lines),
  );
}

/** A series' name with its colour before it. */
export const named = (series) =>
  make('span', { class: `named ink-${series.ink}` }, make('i', { class: 'dot' }), series.title);
