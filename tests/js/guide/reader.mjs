// SPDX-License-Identifier: Apache-2.0
// A reader who does what a page of documentation says, in an empty folder.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { agrees, commandsIn, fileOf } from './blocks.mjs';

/** Commands that go on until they are stopped, and their port. */
const SERVER = /^(?:npx wisp-engine|wisp|python3 -m) (?:http\.server|serve)\b.*?(\d{4})$/;
const PATIENCE_MS = 120_000;

export class Reader {
  /** @type {import('node:child_process').ChildProcess[]} */
  #servers = [];
  /** Ports of the page, and those that take their place here. @type {Map<string, number>} */
  #ports = new Map();

  /**
   * @param {string} folder
   * @param {NodeJS.ProcessEnv} env
   * @param {() => Promise<import('playwright-core').Page>} browse opens a new tab
   */
  constructor(folder, env, browse) {
    this.folder = folder;
    this.env = env;
    this.browse = browse;
  }

  /**
   * Does what a block says.
   * @param {import('./blocks.mjs').Block} block
   * @returns {Promise<string[]>} what came that is not what the block shows
   */
  async follow(block) {
    const file = fileOf(block);
    if (file !== undefined) return this.#write(file, block.code);
    if (block.code.startsWith('$ ')) return this.#run(block.code);
    if (/shows:$/.test(block.before)) return this.#look(block.before, block.code);
    assert.fail(`neither a file, nor commands, nor what a page shows:\n${block.code}`);
  }

  /** @param {string} name @param {string} text */
  #write(name, text) {
    assert.doesNotMatch(text, /^\$ /m, `${name}: a sentence is missing before its commands`);
    const path = join(this.folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${text}\n`);
    return [];
  }

  /** @param {string} code */
  async #run(code) {
    const differences = [];
    for (const { command, output } of commandsIn(code)) {
      const port = SERVER.exec(command)?.[1];
      if (port) {
        await this.#serve(command, port);
        continue;
      }
      const printed = await this.#print(command);
      if (!agrees(output, printed))
        differences.push(`$ ${command}\n${output}\n--- is:\n${printed}`);
    }
    return differences;
  }

  /** Runs a command to its end, whatever its exit code. @param {string} command @returns {Promise<string>} */
  #print(command) {
    const how = { cwd: this.folder, env: this.env, timeout: PATIENCE_MS };
    return new Promise((resolve, reject) => {
      execFile('bash', ['-c', `exec 2>&1; ${command}`], how, (error, stdout) => {
        if (error?.killed) reject(error);
        else resolve(stdout);
      });
    });
  }

  /** @param {string} command @param {string} shown */
  async #serve(command, shown) {
    const port = await freePort();
    this.#ports.set(shown, port);
    const own = `exec ${command.replace(shown, String(port))}`;
    const { folder: cwd, env } = this;
    this.#servers.push(spawn('bash', ['-c', own], { cwd, env, stdio: 'ignore' }));
    for (let waited = 0; !(await answers(port)); waited += 50) {
      assert.ok(waited < PATIENCE_MS, `${command}: nothing answers at its port`);
      await sleep(50);
    }
  }

  /** @param {string} before @param {string} shown */
  async #look(before, shown) {
    const [, port, path] = /http:\/\/localhost:(\d+)(\/[\w./-]*\w)/.exec(before) ?? [];
    assert.ok(this.#ports.has(port), `no server of the page: ${before}`);
    if (/\bStop the server\b/.test(before)) await this.close();
    const page = await this.browse();
    page.setDefaultTimeout(PATIENCE_MS);
    try {
      /** @type {string[]} */
      const faults = [];
      page.on('pageerror', (error) => faults.push(String(error)));
      await page.goto(`http://localhost:${this.#ports.get(port)}${path}`);
      const [, typed] = /Type `([^`]+)`/.exec(before) ?? [];
      if (typed) {
        const input = page.locator('input:not([disabled])');
        await input.fill(typed).catch((error) => faults.push(String(error)));
      }
      let found = '';
      for (let waited = 0; waited < PATIENCE_MS && faults.length === 0; waited += 50) {
        found = await page.locator('body').innerText();
        if (agrees(shown, found)) return [];
        await sleep(50);
      }
      return [`${path}\n${shown}\n--- is:\n${found}\n${faults.join('\n')}`];
    } finally {
      await page.close();
    }
  }

  /** Ends the servers. */
  async close() {
    const ends = this.#servers.map((server) => once(server, 'exit'));
    for (const server of this.#servers.splice(0)) server.kill();
    await Promise.all(ends);
  }
}

/** @returns {Promise<number>} */
function freePort() {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

/** @param {number} port @returns {Promise<boolean>} */
function answers(port) {
  const socket = connect(port, '127.0.0.1');
  return new Promise((resolve) => {
    const end = (/** @type {boolean} */ is) => {
      socket.destroy();
      resolve(is);
    };
    socket.once('connect', () => end(true)).once('error', () => end(false));
  });
}
