// What a stranger does with the pages alone, command by command as printed, in one session on one
// machine: a fresh checkout in a fresh home, installed, the tutorial, then the pages for operators:
// served as a service, copied, restored, exported, moved.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

const CHECKOUT = new URL('../../../', import.meta.url);
const SDK = path.join(import.meta.dirname, 'node_modules/node-appwrite');
const run = promisify(execFile);

/** What stands for the machine: no test may write into the real one's folders. */
const PRELUDE = `
set -euo pipefail
cd "$HOME"
sudo() { if [ "$1" = -u ]; then shift 2; fi; "$@"; }
serve() {
  : > "$ROOT/log"
  tidemark serve --data "$1" --listen 127.0.0.1:0 >> "$ROOT/log" 2>&1 &
  server=$!
  until grep -q endpoint "$ROOT/log"; do
    kill -0 $server || { cat "$ROOT/log"; exit 1; }
    sleep 0.02
  done
}
stop() { kill $server; wait $server; }
systemctl() { case "$1" in start) serve "$ROOT/var/lib/tidemark";; stop) stop;; esac; }
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
`;

let root;
before(async () => (root = await mkdtemp(path.join(os.tmpdir(), 'tidemark-operator-'))));
after(() => rm(root, { recursive: true, force: true }));

/** A page, as the stranger's checkout has it. */
const read = (page) => readFile(path.join(root, 'home/tidemark/docs', page), 'utf8');

/** The blocks of a page in a language. */
const blocksIn = (text, language) =>
  [...text.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gs'))].map(([, code]) => code);

/** The shell blocks of a page that hold none of the words. */
async function blocksOf(page, ...without) {
  const blocks = blocksIn(await read(page), 'sh');
  const kept = blocks.filter((block) => !without.some((word) => block.includes(word)));
  assert.ok(kept.length > 0, `${page} shows commands`);
  return kept;
}

/** Folders of the system become folders of the test's root; nothing else of a command changes. */
const placed = (script) =>
  script.replaceAll(/(?<![\w"}])\/(?=(srv|var\/lib|usr\/local)\/)/g, '"$ROOT"/');

async function shell(...script) {
  const folder = path.join(root, 'usr/local/bin');
  const { stdout } = await run('bash', ['-c', PRELUDE + placed(script.join('\n'))], {
    timeout: 120_000,
    env: {
      PATH: `${folder}:${process.env.PATH}`,
      HOME: path.join(root, 'home'),
      ROOT: root,
      TIDEMARK_DATA: path.join(root, 'var/lib/tidemark'),
      TIDEMARK_PROJECT_ID: 'shop',
      TIDEMARK_API_KEY: 'standard_a-long-random-text',
    },
  });
  return stdout;
}

const FILL = `
systemctl start tidemark
api=$(sed -n 's/^ *endpoint *//p' "$ROOT/log")/tablesdb
send() { curl -sS --fail-with-body -o /dev/null -H 'X-Appwrite-Project: shop' \\
  -H "X-Appwrite-Key: $TIDEMARK_API_KEY" "$api$1" --json "$2"; }
send '' '{"databaseId": "shop", "name": "Shop"}'
for table in customers products; do
  send /shop/tables '{"tableId": "'$table'", "name": "T",
    "columns": [{"key": "name", "type": "varchar", "size": 50}]}'
  send /shop/tables/$table/rows '{"rowId": "c1", "data": {"name": "Ada"}}'
done
stop
`;

/** The pages suppose the data directory of another server. */
const OTHER = ['serve "$ROOT/srv/other"', 'stop'];

/** What a clone of this checkout holds once all is committed, with the binary as if built there. */
async function clone() {
  const to = path.join(root, 'home/tidemark');
  await mkdir(path.join(to, 'target/release'), { recursive: true });
  const files = 'git ls-files -z --cached --others --exclude-standard';
  const copy = `${files} | tar -c --null --ignore-failed-read -T - | tar -x -C "$TO"`;
  const env = { ...process.env, TO: to };
  await run('bash', ['-c', copy], { cwd: CHECKOUT, env });
  await copyFile(process.env.TIDEMARK_BIN, path.join(to, 'target/release/tidemark'));
}

test('the binary is installed, and a service has data', async () => {
  for (const folder of ['home', 'srv', 'var/lib/backup', 'usr/local/bin']) {
    await mkdir(path.join(root, folder), { recursive: true });
  }
  await clone();
  const [install, check] = await blocksOf('start/install.md', 'cargo build');
  const said = await shell('cd tidemark', install, check, FILL);
  assert.match(said, /^tidemark \d/);
});

test('the tutorial runs on what was installed, and prints what it says', async () => {
  const page = await read('tutorial.md');
  const [start, install] = blocksIn(page, 'sh');
  const promised = [...page.matchAll(/^It prints `([^`]*)`/gm)].map(([, line]) => line);
  assert.equal(promised.length, 5);
  await mkdir(path.join(root, 'home/shop'));
  await writeFile(path.join(root, 'home/shop/shop.mjs'), blocksIn(page, 'js').join(''));
  const endpoint = 'http://127.0.0.1:8280/v1';
  const said = await shell(
    'cd shop',
    start.replace(/tidemark serve --data (\S+)/, 'serve $1'),
    `sed -i "s|${endpoint}|$(sed -n 's/^ *endpoint *//p' "$ROOT/log")|" shop.mjs`,
    // The tests have no registry: the package itself is here.
    `${install.trim().replace(/node-appwrite@\S+/, SDK)} --offline --silent --no-audit >&2`,
    'node shop.mjs',
    'stop',
  );
  assert.deepEqual(said.trim().split('\n'), promised);
});

test('keys are made, listed and revoked', async () => {
  const [block] = await blocksOf('guides/permissions.md');
  const id = '$(tidemark key list | awk \'/reader/ { print $1 }\')';
  const said = await shell(block.replace('KEY-ID', id), 'tidemark key list');
  assert.match(said, /revoked/i);
});

test('databases and tables move', async () => {
  const blocks = await blocksOf('guides/moving.md', '--from-appwrite');
  const look = ['wc -l products.csv', 'tidemark history shop products c1 --data /srv/new'];
  const said = await shell(...OTHER, ...blocks, ...look);
  assert.match(said, /2 products.csv/);
  assert.match(said, /Ada/);
});

test('a server is copied, stopped and as a file of its history', async () => {
  const blocks = await blocksOf('guides/copying.md');
  const look = 'for one in copy new again; do\n' +
    'tidemark history shop customers c1 --data /srv/$one\ndone';
  const begin = ['rm -rf /srv/*', 'cp -a /var/lib/tidemark /srv/tidemark'];
  const said = await shell(...begin, ...blocks, look);
  assert.equal(said.match(/Ada/g).length, 3);
});

test('a backup is made, restored, tried', async () => {
  const blocks = await blocksOf('guides/backups.md', 'btrfs');
  const [copy, restore, move, attempt] = blocks;
  assert.equal(blocks.length, 4);
  const tried = attempt.replace(/^tidemark serve --data (\S+) .*$/m, 'serve $1');
  const lose = 'tidemark erase shop customers c1 --yes';
  const made = ['rm -rf /srv/*', ...OTHER, 'systemctl start', copy, lose];
  const restored = [restore, 'tidemark history shop customers c1', move, 'stop'];
  const said = await shell(...made, ...restored, tried, 'cat "$ROOT/log"', 'stop');
  assert.match(said, /Ada/, 'the restored store knows the row that was erased since');
  assert.match(said, /endpoint/);
});

test('a row is erased as the guide says', async () => {
  const [block] = await blocksOf('guides/erasure.md');
  // Without a terminal there is no one to ask.
  const look = 'tidemark history shop customers c1 || echo gone';
  const said = await shell(`${block.trim()} --yes`, look);
  assert.match(said, /Ada[\s\S]*gone/);
});
