// What a reader must know about the machine and the programs to judge the numbers.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import os from 'node:os';
import { promisify } from 'node:util';
import { sdkVersion } from './workload.js';

async function serverVersion(endpoint) {
  const response = await fetch(`${endpoint}/health/version`);
  if (!response.ok) return 'unknown';
  const { version = 'unknown' } = await response.json();
  return version;
}

export function describeMachine() {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model.trim() ?? 'unknown',
    cores: cpus.length,
    memory_mib: Math.round(os.totalmem() / 2 ** 20),
    kernel: `${os.type()} ${os.release()} ${os.arch()}`,
    node: process.version,
    sdk: `node-appwrite ${sdkVersion()}`,
  };
}

/** The server as it names itself; `probe` is one of its answers. */
export async function describeServer(endpoint, probe) {
  return {
    endpoint,
    server: probe.headers.get('server') ?? 'not sent',
    server_version: await serverVersion(endpoint),
  };
}

/** The commit of the sources, marked where files have changed since; null where there is none. */
async function checkout() {
  const folder = new URL('.', import.meta.url).pathname;
  const describe = ['-C', folder, 'describe', '--always', '--dirty', '--abbrev=12'];
  try {
    const { stdout } = await promisify(execFile)('git', describe);
    return stdout.trim();
  } catch {
    return null;
  }
}

/**
 * What tells the server's binary from any other one: its sum, where `TIDEMARK_BIN` names it, and
 * the commit of the sources beside this benchmark.
 */
export async function describeBinary(binary) {
  const sum = async () => createHash('sha256').update(await readFile(binary)).digest('hex');
  return { binary_sha256: binary ? await sum() : null, checkout: await checkout() };
}
