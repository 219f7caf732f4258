// Which methods of the official SDK this server serves: the SDK's own sources beside the server's table
// of routes. `node coverage.js` writes docs/reference/sdk-coverage.md, and coverage.test.js compares it.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../../..');
export const PAGE = join(root, 'docs/reference/sdk-coverage.md');
const ROUTES = join(root, 'crates/server/src/http/head/route.rs');

/** Every method that sends a request: `{service, name, verb, path}`. */
export function methods() {
  const entry = createRequire(import.meta.url).resolve('node-appwrite');
  const folder = join(dirname(entry), 'services');
  const files = readdirSync(folder).filter((file) => file.endsWith('.mjs'));
  return files.sort().flatMap((file) => methodsOf(readFileSync(join(folder, file), 'utf8')));
}

function methodsOf(source) {
  const service = /^var (\w+) = class/m.exec(source)[1];
  // A method stands two spaces in; what is deeper belongs to it.
  const parts = source.split(/^ {2}(?:async )?(\w+)\([^\n]*\) \{$/m);
  const found = [];
  for (let at = 1; at < parts.length; at += 2) {
    const path = /const apiPath = "([^"]+)"/.exec(parts[at + 1]);
    const verb = /^ {6}"(get|post|put|patch|delete)",$/m.exec(parts[at + 1]);
    if (path) {
      found.push({
        service,
        name: parts[at],
        verb: verb ? verb[1].toUpperCase() : 'GET',
        path: path[1],
      });
    }
  }
  return found;
}

/** What stands for a route, whatever its ids are called. */
function shape(verb, path) {
  return `${verb} ${path.replace(/\{[^}]*\}/g, '{}')}`;
}

const OLDER = {
  tablesdb: 'databases',
  tables: 'collections',
  columns: 'attributes',
  rows: 'documents',
};

/** The shapes of all routes that are answered. */
export function served() {
  const source = readFileSync(ROUTES, 'utf8');
  const table = /const ROUTES:.*?\n\];/s.exec(source)[0];
  const routes = [...table.matchAll(/\(&?(\w+),\s*"\/v1([^"]+)",\s*Action::(\w+)/g)]
    .filter(([, , , action]) => !['NotBuilt', 'DenyKey'].includes(action))
    .map(([, verb, path]) => [verb, path]);
  const kinds = /const COLUMN_KINDS:.*?= \[(.*?)\];/s.exec(source)[1];
  for (const [, kind] of kinds.matchAll(/"(\w+)"/g)) {
    const columns = `/tablesdb/{database}/tables/{table}/columns/${kind}`;
    routes.push(['POST', columns], ['PATCH', `${columns}/{column}`]);
  }
  const shapes = new Set();
  for (const [verb, path] of routes) {
    shapes.add(shape(verb, path));
    if (path.startsWith('/tablesdb')) {
      const older = path.split('/').map((word) => OLDER[word] ?? word);
      shapes.add(shape(verb, older.join('/')));
    }
  }
  return shapes;
}

/** The page, from what is there now. */
export function page() {
  const { dependencies } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));
  const version = dependencies['node-appwrite'];
  const shapes = served();
  const all = methods().map((method) => ({
    ...method,
    isServed: shapes.has(shape(method.verb, method.path)),
  }));
  const services = [...new Set(all.map(({ service }) => service))];
  const of = (service) => all.filter((method) => method.service === service);
  const count = (list) => list.filter(({ isServed }) => isServed).length;
  const partly = services.filter((service) => count(of(service)) > 0);
  const nothing = services.filter((service) => count(of(service)) === 0);
  const lines = [
    '# What of the official SDK is served',
    '',
    `Of the ${all.length} methods of \`node-appwrite\` ${version} that send a request, ${count(all)} are served. The others`,
    'answer 501 `general_service_not_supported` where a whole service is missing, 405 `general_not_implemented` for',
    'a single route, 404 where the path itself is unknown, or 403 `key_creation_denied` where they would make or',
    'change an API key. This page is written by',
    '`tests/sdk/node/coverage.js` from the SDK and the table of routes; a test compares it.',
    '',
    'Methods of other official SDKs have the same names and routes.',
    '',
    '| service | methods | served |',
    '|---|---:|---:|',
    ...services.map((service) => `| ${service} | ${of(service).length} | ${count(of(service))} |`),
  ];
  for (const service of partly) {
    lines.push('', `## ${service}`, '', '| method | route | served |', '|---|---|---|');
    for (const { name, verb, path, isServed } of of(service)) {
      lines.push(`| \`${name}\` | \`${verb} ${path}\` | ${isServed ? 'yes' : '**no**'} |`);
    }
  }
  lines.push('', '## Services of which nothing is served', '');
  for (const service of nothing) {
    const names = of(service).map(({ name }) => `\`${name}\``);
    lines.push(`- **${service}**: ${names.join(', ')}`);
  }
  return `${lines.join('\n')}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(PAGE, page());
}
