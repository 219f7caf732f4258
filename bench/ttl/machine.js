// What a reader must know about the machine and the programs to judge the numbers.

import os from 'node:os';
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
