// SPDX-License-Identifier: Apache-2.0
// wisp serve under load: 200 clients, each with a request after the other, and a queue for a part of them. bench/serve.mjs
// does it for a minute.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { test } from 'node:test';
import { serve, skip } from './serve-program.mjs';

const CLIENTS = 200;
const REQUESTS = 4000;

/** @param {number} pid @returns {number} resident megabytes */
const residentOf = (pid) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1e3;

test('200 clients get a row or 429, and memory stays', { skip, timeout: 300_000 }, async (t) => {
  const server = await serve(['--queue', '20', '--connections', '64', '--batch-tokens', '256']);
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
  t.after(async () => {
    agent.destroy();
    await server.stop();
  });
  /** @type {number[]} milliseconds of replies with a row */
  const waits = [];
  let refused = 0;

  /** @param {number} i @returns {Promise<number>} milliseconds to wait before the next request */
  const ask = (i) =>
    new Promise((resolve, reject) => {
      const begun = performance.now();
      const sent = request({ port: server.port, agent, path: '/embed', method: 'POST' }, async (reply) => {
        let body = '';
        for await (const part of reply) body += part;
        if (reply.statusCode === 200) {
          assert.equal(JSON.parse(body)[0].length, 384);
          waits.push(performance.now() - begun);
          return resolve(0);
        }
        assert.equal(reply.statusCode, 429, body);
        assert.match(body, /texts are waiting, and the queue takes 20/);
        refused++;
        resolve(100 * Number(reply.headers['retry-after']));
      }); // prettier-ignore
      sent.on('error', reject);
      sent.end(
        JSON.stringify({ inputs: `the ${i % 97} cats sleep on the sofa of house number ${i}` }),
      );
    });

  let asked = 0;
  const load = async (/** @type {number} */ requests) => {
    const last = asked + requests;
    await Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        while (asked < last) {
          const wait = await ask(asked++);
          await new Promise((resolve) => setTimeout(resolve, wait));
        }
      }),
    );
  };
  await load(REQUESTS / 4); // what each thread needs
  const before = residentOf(server.pid);
  waits.length = 0;
  await load(REQUESTS);
  const growth = residentOf(server.pid) - before;
  waits.sort((a, b) => a - b);
  t.diagnostic(`${waits.length} rows, ${refused} refused, p99 ${waits[Math.floor(0.99 * waits.length)].toFixed(0)} ms, ${growth.toFixed(1)} MB more`); // prettier-ignore
  assert.ok(waits.length > 0);
  assert.ok(refused > 0);
  assert.ok(growth < 8, `${growth} MB`);
});
