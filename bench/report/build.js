// Puts page, style, chart library and script into one file that `tidemark` and `bench/ttl` fill
// with a run. The file is committed, so that building the binary needs no Node; a test compares.

import { build } from 'esbuild';
import { readFile, writeFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';

const at = (path) => new URL(path, import.meta.url);

/** Where the binary takes the page from. */
export const TEMPLATE = at('../scenarios/src/page.template');

/** Licences ask to be told of wherever the code goes. */
async function notices() {
  const licence = await readFile(at('node_modules/uplot/LICENSE'), 'utf8');
  return `/* uPlot: ${licence.trim().replaceAll('*/', '* /')} */\n`;
}

async function bundled(entry, loader) {
  const result = await build({
    entryPoints: [at(entry).pathname],
    bundle: true,
    minify: true,
    write: false,
    target: ['es2022'],
    legalComments: 'none',
    charset: 'utf8',
    ...loader,
  });
  return result.outputFiles[0].text.trim();
}

/** The whole page; `{{title}}` and `{{run}}` are left for who fills it. */
export async function template() {
  const page = await readFile(at('page.html'), 'utf8');
  const uplot = await readFile(at('node_modules/uplot/dist/uPlot.min.css'), 'utf8');
  const style = uplot.trim() + (await bundled('page.css', {}));
  const script = (await notices()) + (await bundled('src/main.js', { format: 'iife' }));
  if (script.includes('</script')) throw new Error('the script would end the page early');
  return page.replace('{{style}}', () => style).replace('{{script}}', () => script);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await writeFile(TEMPLATE, await template());
}
