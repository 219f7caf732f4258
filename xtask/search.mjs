// Asks the search of the built documentation what people look for, with the page's own engine and
// settings. TIDEMARK_DOCS names the folder of the site.

import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import vm from 'node:vm';

const FOLDER = process.env.TIDEMARK_DOCS;
/** A reader looks at the first results only. */
const LOOKED_AT = 5;

/** What is looked for, and the pages of which one must be among the first results. */
const EXPECTED = [
  ['permission', ['guides/permissions.html']],
  ['scope', ['reference/scopes.html', 'guides/permissions.html']],
  ['backup', ['guides/backups.html']],
  ['ttl', ['concepts/ttl.html']],
  ['stale', ['concepts/ttl.html', 'reference/http.html']],
  ['index', ['reference/schema.html', 'reference/column-types.html', 'guides/queries.html']],
  ['enum', ['reference/column-types.html']],
  ['cursor', ['guides/queries.html', 'reference/queries.html']],
  ['asOf', ['reference/time.html', 'concepts/two-times.html', 'reference/queries.html']],
  ['delete user data', ['guides/erasure.html']],
  ['CORS', ['guides/deployment.html', 'reference/http.html']],
  ['409', ['reference/errors.html']],
];

/** The engine and the index, as the page loads them. */
async function load() {
  const files = await readdir(FOLDER);
  const named = (start) => files.find((file) => file.startsWith(start) && file.endsWith('.js'));
  const scope = vm.createContext({ window: {}, Object });
  scope.window.search = {};
  const run = async (file) => {
    vm.runInContext(await readFile(path.join(FOLDER, file), 'utf8'), scope, { filename: file });
  };
  await run(named('elasticlunr'));
  await run(named('searchindex'));
  const data = scope.window.search;
  return { config: data, index: scope.elasticlunr.Index.load(data.index) };
}

const { config, index } = await load();

for (const [words, pages] of EXPECTED) {
  test(`the search finds a page for "${words}"`, () => {
    const found = index.search(words, config.search_options).slice(0, LOOKED_AT);
    const shown = found.map(({ ref }) => config.doc_urls[ref].split('#')[0]);
    const isThere = pages.some((page) => shown.includes(page));
    assert.ok(isThere, `none of ${pages.join(', ')} among ${shown.join(', ') || 'no results'}`);
  });
}
