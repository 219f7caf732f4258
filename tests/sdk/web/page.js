// Runs in the browser: calls the server as a page does, and reports what came of it.

const { Client, Query, TablesDB } = globalThis.Appwrite;
const given = new URLSearchParams(location.search);
const [endpoint, project] = [given.get('endpoint'), given.get('project')];
const db = new TablesDB(new Client().setEndpoint(endpoint).setProject(project));
const T = { databaseId: 'd', tableId: 't' };
const rows = `${endpoint}/tablesdb/d/tables/t/rows`;

/** A plain request of this page, with what it can read of the answer. */
async function ask(route, headers = {}, more = {}) {
  const all = { 'X-Appwrite-Project': project, ...headers };
  const response = await fetch(route, { headers: all, credentials: 'include', ...more });
  const names = ['etag', 'x-appwrite-cache', 'x-tidemark-cache', 'x-request-id'];
  const read = Object.fromEntries(names.map((name) => [name, response.headers.get(name)]));
  return { status: response.status, text: await response.text(), read };
}

const CASES = {
  async list() {
    const queries = [Query.equal('n', [1, 2]), Query.orderDesc('n')];
    const listed = await db.listRows({ ...T, queries, ttl: 60 });
    return { total: listed.total, ids: listed.rows.map((row) => row.$id) };
  },
  async write() {
    const made = await db.createRow({ ...T, rowId: 'w', data: { n: 7 } });
    const changed = await db.updateRow({ ...T, rowId: 'w', data: { n: 8 } });
    const put = await db.upsertRow({ ...T, rowId: 'w', data: { n: 9 } });
    await db.deleteRow({ ...T, rowId: 'w' });
    return [made.n, changed.n, put.n];
  },
  async refusal() {
    const error = await db.getRow({ ...T, rowId: 'none' }).then(null, (error) => error);
    return { code: error.code, type: error.type };
  },
  async revalidation() {
    const first = await ask(rows, {}, { cache: 'no-cache' });
    const second = await ask(rows, {}, { cache: 'no-cache' });
    return { first: first.status, second: second.status, same: first.text === second.text };
  },
  async condition() {
    const first = await ask(`${rows}?ttl=60`, {}, { cache: 'no-store' });
    const held = { 'If-None-Match': first.read.etag };
    const second = await ask(`${rows}?ttl=60`, held, { cache: 'no-store' });
    const read = Object.keys(first.read).filter((name) => first.read[name]);
    return { status: second.status, text: second.text, read };
  },
};

const report = {};
for (const [name, run] of Object.entries(CASES)) {
  report[name] = await run().catch((error) => ({ error: String(error.message ?? error) }));
}
await fetch('/report', { method: 'POST', body: JSON.stringify(report) });
