// Code of a function as a deployment brings it, and what it takes until it can be executed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { InputFile } from 'node-appwrite/file';
import { poll } from './server.js';

/** The files of a handler as a deployment brings them, with these folders beside them. */
export function archive(files, folders = {}) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'tidemark-code-'));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
    for (const [name, from] of Object.entries(folders)) {
      cpSync(from, path.join(folder, name), { recursive: true, dereference: true });
    }
    const names = [...Object.keys(files), ...Object.keys(folders)];
    execFileSync('tar', ['-czf', 'code.tar.gz', ...names], { cwd: folder });
    return readFileSync(path.join(folder, 'code.tar.gz'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The runtime of this Node; undefined, with the test skipped, where functions are not executed. */
export async function ownRuntime(functions, t) {
  const own = `node-${process.versions.node.split('.')[0]}`;
  const { runtimes } = await functions.listRuntimes();
  const runtime = runtimes.map(({ $id }) => $id).find((id) => id === own || id === `${own}.0`);
  if (runtime === undefined) {
    assert.notEqual(process.env.TIDEMARK_JAIL, 'required', 'functions are not executed here');
    t.skip(`functions are not executed here: ${JSON.stringify(runtimes)}`);
  }
  return runtime;
}

/** Sends code and waits until it can be executed. */
export async function deployed(functions, functionId, bytes, commands = '') {
  const code = InputFile.fromBuffer(bytes, 'code.tar.gz');
  const entrypoint = 'main.js';
  const sent = await functions.createDeployment({
    functionId,
    code,
    activate: true,
    entrypoint,
    commands,
  });
  const deploymentId = sent.$id;
  const built = await poll('the build', async () => {
    const found = await functions.getDeployment({ functionId, deploymentId });
    return ['ready', 'failed'].includes(found.status) ? found : null;
  });
  assert.equal(built.status, 'ready', built.buildLogs);
  return deploymentId;
}
