// The client-side floors: a static responder that gives the very bytes the server gave, and a lean
// one, which gives the body alone with the least head. What the same SDK call costs against them is
// the client's own share of every sample.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';

/** The responder must say where it listens within this time, in milliseconds. */
const START_LIMIT_MS = 10_000;

async function firstListening(child) {
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) {
    const found = /^listening on (http:\/\/\S+)$/.exec(line.trim());
    if (found) {
      // No code reads on, and a full pipe would stop the responder.
      child.stdout.resume();
      return found[1];
    }
  }
  throw new Error('bench floor ended before it listened');
}

async function startBinary(binary, url, headers, lean) {
  const headerArgs = Object.entries(headers).flatMap(([key, value]) => [
    '--header',
    `${key}: ${value}`,
  ]);
  const kind = lean ? ['--lean'] : [];
  const args = ['bench', 'floor', ...kind, '--listen', '127.0.0.1:0', '--from', url, ...headerArgs];
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const failed = once(child, 'error').then(([error]) => {
    throw new Error(`cannot start ${binary}: ${error.message}`);
  });
  const timer = setTimeout(() => child.kill(), START_LIMIT_MS);
  try {
    const origin = await Promise.race([firstListening(child), failed]);
    return {
      origin,
      kind: 'tidemark bench floor',
      async close() {
        const gone = once(child, 'exit');
        child.kill('SIGTERM');
        await gone;
      },
    };
  } finally {
    clearTimeout(timer);
    failed.catch(() => {});
  }
}

/** Headers that Node writes itself, or that say how the copied answer was sent. */
const OWN_HEADERS = ['connection', 'content-length', 'date', 'keep-alive', 'transfer-encoding'];

async function startWorker(url, headers, lean) {
  const response = await fetch(url, { headers });
  if (!response.ok) throw new Error(`the floor's copy answered ${response.status}`);
  const body = new Uint8Array(await response.arrayBuffer());
  const names = (name) => (lean ? name === 'content-type' : !OWN_HEADERS.includes(name));
  const head = Object.fromEntries([...response.headers].filter(([name]) => names(name)));
  const worker = new Worker(new URL('./floor-worker.js', import.meta.url), {
    workerData: { body, head },
  });
  const [port] = await once(worker, 'message');
  return {
    origin: `http://127.0.0.1:${port}`,
    kind: 'node:http in a worker thread',
    close: () => worker.terminate(),
  };
}

/**
 * Copies the answer at `url` once and serves it from a new local port: by the given tidemark
 * binary, or by Node itself when there is none. `lean` leaves out all headers but the body's type.
 * @returns {{origin: string, kind: string, close: () => Promise<unknown>}}
 */
export function startFloor(binary, url, headers, lean = false) {
  if (binary === null) return startWorker(url, headers, lean);
  return startBinary(binary, url, headers, lean);
}
