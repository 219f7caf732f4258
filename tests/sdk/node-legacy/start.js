// A server, and clients of it from this folder's SDK.

import { Client, Databases } from 'node-appwrite';
import { Server } from '../node/server.js';

export { refused } from '../node/server.js';

export async function start() {
  const server = await Server.start();
  const { endpoint, projectId, apiKey } = server.bootstrap;
  const client = () => new Client().setEndpoint(endpoint).setProject(projectId);
  return {
    server,
    databases: new Databases(client().setKey(apiKey)),
    guest: new Databases(client()),
  };
}
