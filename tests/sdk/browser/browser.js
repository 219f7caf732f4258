// A page with the web SDK on it, on an origin of its own, in a real browser.

import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { chromium } from 'playwright-core';

const SDK = new URL('./node_modules/appwrite/dist/iife/sdk.js', import.meta.url);
const PAGE = '<!doctype html><meta charset="utf-8"><title>shop</title><script src="/sdk.js"></script>';

/** Serves the page under every host name that the browser takes for this machine. */
async function servePage() {
  const sdk = await readFile(SDK);
  const server = http.createServer((request, response) => {
    const isSdk = request.url === '/sdk.js';
    response.setHeader('content-type', isSdk ? 'text/javascript' : 'text/html');
    response.end(isSdk ? sdk : PAGE);
  });
  await new Promise((resume) => server.listen(0, '127.0.0.1', resume));
  return server;
}

/** A browser and pages in it. */
export class Browser {
  static async start(bootstrap) {
    const browser = new Browser();
    browser.bootstrap = bootstrap;
    browser.pages = await servePage();
    browser.process = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: [
        // Root has no sandbox, and CI is root.
        '--no-sandbox',
        '--host-resolver-rules=MAP *.example 127.0.0.1',
      ],
    });
    return browser;
  }

  /** A page of `host`, in a profile of its own, whose SDK is set to the server's first project. */
  async page(host) {
    const context = await this.process.newContext();
    const page = await context.newPage();
    await page.goto(`http://${host}:${this.pages.address().port}/`);
    await page.evaluate(({ endpoint, projectId }) => {
      const { Client, TablesDB, Databases, Functions } = window.Appwrite;
      const client = new Client().setEndpoint(endpoint).setProject(projectId);
      window.tables = new TablesDB(client);
      window.databases = new Databases(client);
      window.functions = new Functions(client);
      window.ask = (route, init = {}) => {
        const headers = { 'X-Appwrite-Project': projectId, ...init.headers };
        return fetch(endpoint + route, { credentials: 'include', ...init, headers });
      };
      /** What a call ends with, in a form that leaves the page. */
      window.outcome = (call) =>
        call.then(
          (answer) => ({ answer }),
          ({ name, message, code, type }) => ({ error: { name, message, code, type } }),
        );
    }, this.bootstrap);
    return page;
  }

  async close() {
    await this.process.close();
    this.pages.closeAllConnections();
    await new Promise((resume) => this.pages.close(resume));
  }
}
