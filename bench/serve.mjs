// SPDX-License-Identifier: Apache-2.0
// `wisp serve` under load: many clients that ask for one embedding after the other, each over a connection that it keeps.
// Prints replies by status, texts a second beside the program's, how long clients waited, and the server's memory.
//
//     node bench/serve.mjs [--clients 200] [--seconds 60] [--texts 1] [--threads 2] [--queue N]
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { machine } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const PROGRAM = `${ROOT}build/wisp`;
const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '60' },
    texts: { type: 'string', default: '1' },
    threads: { type: 'string', default: '2' },
    queue: { type: 'string', default: '8192' },
  },
});
const [clients, seconds, texts] = [values.clients, values.seconds, values.texts].map(Number);

/** Sentences of about 15 tokens. @param {number} i */
const textOf = (i) => `the ${i % 997} cats sleep on the sofa of house number ${i % 89}`;

function startServer() {
  const library = `${ROOT}.tools/civetweb/usr/lib/${machine()}-linux-gnu`;
  const child = spawn(
    PROGRAM,
    ['serve', '--port', '0', '-t', values.threads, '--queue', values.queue],
    {
      env: {
        ...process.env,
        LD_LIBRARY_PATH: [process.env.LD_LIBRARY_PATH, library].filter(Boolean).join(':'),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  return new Promise((resolve, reject) => {
    let said = '';
    child.stderr.on('data', (part) => {
      said += part;
      const found = /:(\d+) \(Ctrl-C/.exec(said);
      if (found) resolve({ child, port: Number(found[1]) });
    });
    child.once('exit', () => reject(new Error(said)));
  });
}

/** @param {number} pid @returns {number} resident megabytes */
const residentOf = (pid) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1e3;

/** Texts a second of the program without a server. */
function alone() {
  const many = Array.from({ length: 4_000 }, (_, i) => textOf(i)).join('\n');
  const begun = performance.now();
  spawnSync(PROGRAM, ['embed', '-t', values.threads, '--format', 'f32'], {
    input: many,
    maxBuffer: 1e9,
  });
  return (1000 * 4_000) / (performance.now() - begun);
}

const most = alone();
const { child, port } = await startServer();
const agent = new Agent({ keepAlive: true, maxSockets: clients });
/** @type {Map<string, number>} */
const counts = new Map();
/** @type {number[]} milliseconds of replies with 200 */
const waits = [];
let asked = 0;

/** @returns {Promise<void>} */
function ask() {
  const inputs = Array.from({ length: texts }, () => textOf(asked++));
  const body = JSON.stringify({ inputs });
  const begun = performance.now();
  return new Promise((resolve) => {
    const end = (/** @type {string} */ what) => {
      counts.set(what, (counts.get(what) ?? 0) + 1);
      if (what === '200') waits.push(performance.now() - begun);
      resolve();
    };
    const sent = request({ port, agent, path: '/embed', method: 'POST', headers: { 'content-length': Buffer.byteLength(body) } }); // prettier-ignore
    sent.on('error', (error) => end(/** @type {any} */ (error).code ?? error.message));
    sent.on('response', (reply) => {
      reply.resume();
      reply.on('end', () => {
        const { statusCode } = reply;
        if (statusCode !== 429) return end(String(statusCode));
        setTimeout(() => end('429'), 1000 * Number(reply.headers['retry-after'] ?? 1));
      });
    });
    sent.end(body);
  });
}

const until = performance.now() + 1000 * seconds;
const memory = [residentOf(child.pid)];
const watching = setInterval(() => memory.push(residentOf(child.pid)), (1000 * seconds) / 6);
await Promise.all(
  Array.from({ length: clients }, async () => {
    while (performance.now() < until) await ask();
  }),
);
clearInterval(watching);
agent.destroy();
child.kill('SIGTERM');

waits.sort((a, b) => a - b);
const at = (/** @type {number} */ share) =>
  waits[Math.min(waits.length - 1, Math.floor(share * waits.length))]?.toFixed(0);
const served = (waits.length * texts) / seconds;
console.log(
  `${clients} clients, ${seconds} s, ${texts} texts a request, ${values.threads} threads`,
);
console.log(`replies: ${[...counts].map(([what, n]) => `${n} of ${what}`).join(', ')}`);
console.log(`texts/s: ${served.toFixed(0)}; the program alone ${most.toFixed(0)}`);
console.log(`waits, ms: median ${at(0.5)}, p99 ${at(0.99)}, most ${at(1)}`);
console.log(
  `resident, MB, from begin to end: ${memory.map((value) => value.toFixed(1)).join(', ')}`,
);
