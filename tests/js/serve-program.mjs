// SPDX-License-Identifier: Apache-2.0
// Starts wisp serve for tests, and asks it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { machine } from 'node:os';
import { DEFAULT_MODEL_PATH, PROGRAM, ROOT } from './support.mjs';

/** The folder into which tools/setup.py puts CivetWeb if the machine has none. */
const LIBRARIES = [
  process.env.LD_LIBRARY_PATH,
  `${ROOT}.tools/civetweb/usr/lib/${machine()}-linux-gnu`,
]
  .filter(Boolean)
  .join(':');
export const env = { ...process.env, LD_LIBRARY_PATH: LIBRARIES };
const isThere =
  spawnSync('python3', ['-c', 'import ctypes; ctypes.CDLL("libcivetweb.so.1")'], { env }).status ===
  0;
export const skip =
  isThere || process.env.CI ? false : 'skipped: CivetWeb is not there (tools/setup.py civetweb)';

/** @typedef {{ url: string, port: number, pid: number, stop: () => Promise<number>, log: () => string }} Server */

/** Starts a server. @param {string[]} args @param {Record<string, string>} more */
export function serve(args = [], more = {}) {
  const model = args.includes('-m') ? [] : ['-m', DEFAULT_MODEL_PATH];
  return started(PROGRAM, ['serve', '--port', '0', '-t', '1', ...model, ...args], { ...env, ...more }); // prettier-ignore
}

/**
 * Starts a program that serves, and waits until it says its port.
 * @param {string} program @param {string[]} args @param {NodeJS.ProcessEnv} environment @returns {Promise<Server>}
 */
export async function started(program, args, environment) {
  const child = spawn(program, args, { env: environment });
  let err = '';
  /** @type {Promise<number>} */
  const port = new Promise((resolve, reject) => {
    child.stderr.on('data', (part) => {
      err += part;
      const found = /:(\d+) \(Ctrl-C ends\)/.exec(err);
      if (found) resolve(Number(found[1]));
    });
    child.on('close', () => reject(new Error(err)));
  });
  const ended = once(child, 'close');
  const stop = async () => {
    child.kill('SIGTERM');
    return (await ended)[0];
  };
  return {
    url: `http://127.0.0.1:${await port}`,
    port: await port,
    pid: child.pid ?? 0,
    stop,
    log: () => err,
  };
}

/** @param {Server} server @param {string} path @param {unknown} body @param {Record<string, string>} [headers] */
export async function post(server, path, body, headers = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const reply = await fetch(server.url + path, { method: 'POST', body: text, headers });
  return { status: reply.status, headers: reply.headers, body: await reply.json() };
}

/** Sends a request as it is. @param {Server} server @param {string} bytes */
export async function ask(server, bytes) {
  const socket = connect(server.port, '127.0.0.1');
  socket.end(bytes);
  let reply = '';
  for await (const part of socket) reply += part;
  const allowed = /^access-control-allow-origin: (.*)\r$/im.exec(reply)?.[1];
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(reply)?.[1]), allowed, reply };
}

/** Waits until texts are in a server's queue. @param {Server} server */
export async function untilQueued(server) {
  let metrics;
  do metrics = await (await fetch(`${server.url}/metrics`)).text();
  while (/^wisp_queue_texts 0$/m.test(metrics));
}
