// Serves one head and body for every request; see floor.js.

import { createServer } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';

const body = Buffer.from(workerData.body);
const server = createServer((request, response) => {
  response.writeHead(200, {
    ...workerData.head,
    'Content-Length': body.length,
  });
  response.end(body);
});
// Phases run for minutes between two uses of the responder; the client's pool closes first.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
