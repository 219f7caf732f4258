// What the reader has chosen, kept in the query of the page's address, so that a link shows it.

const SEPARATOR = ',';

/** The choices of an address: the keys of the group and of the reference, and the pinned cells. */
export function readAddress(search) {
  const query = new URLSearchParams(search);
  return {
    group: query.get('group'),
    reference: query.get('reference'),
    pins: (query.get('pins') ?? '').split(SEPARATOR).filter((key) => key !== ''),
  };
}

/** The query with these choices in place of the former ones; an empty choice leaves it. */
export function withChoices(search, choices) {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(choices)) {
    const text = Array.isArray(value) ? value.join(SEPARATOR) : value;
    if (text) query.set(name, text);
    else query.delete(name);
  }
  return query.size > 0 ? `?${query}` : '';
}

/** Puts choices into the address without a new entry in the history. */
export function writeAddress(choices) {
  const { pathname, search, hash } = window.location;
  const wanted = withChoices(search, choices);
  if (wanted === search) return;
  try {
    window.history.replaceState(null, '', `${pathname}${wanted}${hash}`);
  } catch {
    // A browser that lets no file change its address: the page works, the link does not follow.
  }
}
