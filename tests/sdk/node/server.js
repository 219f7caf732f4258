// Starts the real binary on a fresh data directory, opens clients to it and stops it.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client, Functions, TablesDB } from 'node-appwrite';

/** How long the binary may take until it serves, or until it has ended; a hang fails, not waits. */
const LIMIT_MS = 20_000;
const POLL_MS = 20;

const run = promisify(execFile);

/** Polls `attempt` until it gives something other than null. */
export async function poll(what, attempt, limitMs = LIMIT_MS) {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const found = await attempt();
    if (found !== null) return found;
    if (Date.now() > deadline) throw new Error(`${what} took more than ${limitMs} ms`);
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}

function binaryPath() {
  const binary = process.env.TIDEMARK_BIN;
  assert.ok(binary, 'TIDEMARK_BIN must name the tidemark binary to test');
  return binary;
}

/**
 * The environment without the settings that the binary would read from it. Where the suite runs on
 * a database, each directory has a schema of its own there.
 */
function environmentOf(directory) {
  const own = ([key]) => !key.startsWith('TIDEMARK_');
  const bare = Object.fromEntries(Object.entries(process.env).filter(own));
  const database = process.env.TIDEMARK_TEST_DATABASE;
  if (database === undefined) return bare;
  return { ...bare, TIDEMARK_DATABASE: `${database}&schema=${path.basename(directory)}` };
}

/** One running server. `bootstrap` is what the binary wrote on its first start. */
export class Server {
  constructor(directory, listen, env) {
    this.directory = directory;
    this.bootstrapPath = path.join(directory, 'bootstrap.json');
    this.output = '';
    const args = ['serve', '--data', path.join(directory, 'data'), '--listen', listen];
    this.process = spawn(binaryPath(), [...args, '--bootstrap-file', this.bootstrapPath], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...environmentOf(directory), ...env },
    });
    const keep = (text) => (this.output = (this.output + text).slice(-10_000));
    this.process.stdout.on('data', keep);
    this.process.stderr.on('data', keep);
    this.exited = once(this.process, 'exit').then(([code, signal]) => ({ code, signal }));
  }

  /** A first start: new data directory, port chosen by the system. */
  static async start({ env = {} } = {}) {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'tidemark-sdk-'));
    const server = new Server(directory, '127.0.0.1:0', env);
    server.bootstrap = await poll('writing the bootstrap file', () => server.readBootstrap());
    await server.untilHealthy();
    return server;
  }

  async readBootstrap() {
    this.assertRunning();
    const text = await readFile(this.bootstrapPath, 'utf8').catch(() => '');
    try {
      return JSON.parse(text);
    } catch {
      return null; // Not there yet, or half written.
    }
  }

  assertRunning() {
    assert.equal(this.process.exitCode, null, `the server ended early:\n${this.output}`);
  }

  untilHealthy() {
    return poll('answering', async () => {
      this.assertRunning();
      const response = await fetch(`${this.bootstrap.endpoint}/health/version`).catch(() => null);
      return response?.ok ? response : null;
    });
  }

  /** Runs another command of the binary over this server's store; its JSON answer. */
  async cli(...words) {
    const args = [...words, '--data', path.join(this.directory, 'data'), '--json'];
    const { stdout } = await run(binaryPath(), args, { env: environmentOf(this.directory) });
    return JSON.parse(stdout);
  }

  /** Stops the process as an operator does, and demands a clean end. */
  async stop() {
    this.process.kill('SIGTERM');
    const hung = new Promise((resume) => {
      setTimeout(() => resume({ code: 'still running' }), LIMIT_MS).unref();
    });
    const end = await Promise.race([this.exited, hung]);
    if (end.code === 'still running') this.process.kill('SIGKILL');
    assert.deepEqual(end, { code: 0, signal: null }, `after SIGTERM; output:\n${this.output}`);
  }

  /** Stops, and serves the same data again at the same address. */
  async restart() {
    await this.stop();
    return this.serveAgain();
  }

  /** Serves the data of this stopped server again, at the same address. */
  async serveAgain() {
    const next = new Server(this.directory, new URL(this.bootstrap.endpoint).host, {});
    next.bootstrap = this.bootstrap;
    await next.untilHealthy();
    return next;
  }

  /** Stops and removes the data directory. */
  async close() {
    try {
      await this.stop();
    } finally {
      await rm(this.directory, { recursive: true, force: true });
    }
  }

  /** A client of the first project; `key` null makes it a guest. */
  client(key = this.bootstrap.apiKey, projectId = this.bootstrap.projectId) {
    const { endpoint } = this.bootstrap;
    const client = new Client().setEndpoint(endpoint).setProject(projectId);
    return key === null ? client : client.setKey(key);
  }

  tables(key, projectId) {
    return new TablesDB(this.client(key, projectId));
  }

  functions() {
    return new Functions(this.client());
  }

  /**
   * One plain HTTP request, for what the SDK hides. `as` is a key, or null for a guest; `json` is
   * parsed where the body is JSON.
   */
  async ask(method, route, { body, headers = {}, as = this.bootstrap.apiKey } = {}) {
    const response = await fetch(this.bootstrap.endpoint + route, {
      method,
      headers: {
        'x-appwrite-project': this.bootstrap.projectId,
        ...(as === null ? {} : { 'x-appwrite-key': as }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: typeof body === 'object' ? JSON.stringify(body) : body,
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('application/json');
    const json = isJson && text !== '' ? JSON.parse(text) : null;
    return { status: response.status, headers: response.headers, text, json };
  }
}

/** Demands that `call` is refused with this status and error type; returns the error. */
export async function refused(call, code, type, message = /./) {
  const outcome = await call.then(
    (answer) => ({ answer: JSON.stringify(answer)?.slice(0, 300) }),
    (error) => ({ error }),
  );
  assert.ok(outcome.error, `expected ${code} ${type}, got an answer: ${outcome.answer}`);
  const { error } = outcome;
  assert.equal(`${error.code} ${error.type}`, `${code} ${type}`, error.stack);
  assert.match(error.message, message);
  return error;
}

/** The query string of a row list as the SDK writes it. */
export function listRoute(database, table, queries = [], extra = {}) {
  const search = new URLSearchParams();
  queries.forEach((query, place) => search.append(`queries[${place}]`, query));
  for (const [key, value] of Object.entries(extra)) search.append(key, String(value));
  return `/tablesdb/${database}/tables/${table}/rows?${search}`;
}
