// SPDX-License-Identifier: Apache-2.0
// Servers of embeddings under load: many clients that ask for one embedding after the other, each over a connection that it
// keeps. `wisp serve`, and with the paths of their programs llama.cpp's llama-server and infinity_emb, in turn, beside the
// speed of `wisp embed` on the same texts. Prints texts a second, how long clients waited, what a text takes of the
// server's processor time, and the server's memory.
//
//     node bench/serve.mjs [--clients 200] [--seconds 60] [--texts 1] [--rounds 1] [--threads 2] [--queue N] [--model FILE]
//         [--llama-server PROGRAM] [--infinity PROGRAM --infinity-model FOLDER] [--json FILE]
//
// --clients and --texts may be lists. llama-server reads FILE, infinity_emb the FOLDER of Hugging Face with the same model.
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { cpus, machine } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './median.mjs';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const PROGRAM = `${ROOT}build/wisp`;
const TICKS = 100; // of a second, in /proc/PID/stat
const START_SECONDS = 120;
const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '60' },
    texts: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '1' },
    threads: { type: 'string', default: '2' },
    queue: { type: 'string', default: '8192' },
    model: { type: 'string', default: `${ROOT}models/wisp-default.gguf` },
    'llama-server': { type: 'string' },
    infinity: { type: 'string' },
    'infinity-model': { type: 'string' },
    json: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const { threads, model } = values;

/** Sentences of about 15 tokens. @param {number} i */
const textOf = (i) => `the ${i % 997} cats sleep on the sofa of house number ${i % 89}`;

const civetweb = `${ROOT}.tools/civetweb/usr/lib/${machine()}-linux-gnu`;
const most = Math.max(...values.clients.split(',').map(Number));
/** Words of each server's command line, and more of its environment. @type {Record<string, { words: (port: string) => string[], env: Record<string, string> }>} */
const SERVERS = {
  wisp: {
    words: (port) => [PROGRAM, 'serve', '--port', port, '-t', threads, '-m', model, '--queue', values.queue], // prettier-ignore
    env: { LD_LIBRARY_PATH: [process.env.LD_LIBRARY_PATH, civetweb].filter(Boolean).join(':') },
  },
  ...(values['llama-server'] && {
    // A slot for each client, and room for 64 tokens in each.
    'llama-server': {
      words: (/** @type {string} */ port) => [`${values['llama-server']}`, '-m', model, '--embeddings', '--pooling', 'mean', '-t', threads, '-tb', threads, '--port', port, '-np', `${most}`, '-c', `${64 * most}`, '-b', '4096', '-ub', '4096', '--log-disable'], // prettier-ignore
      env: {},
    },
  }),
  ...(values.infinity && {
    infinity: {
      words: (/** @type {string} */ port) => [`${values.infinity}`, 'v2', '--model-id', `${values['infinity-model']}`, '--engine', 'torch', '--device', 'cpu', '--host', '127.0.0.1', '--port', port, '--url-prefix', '/v1', '--served-model-name', 'model', '--no-model-warmup'], // prettier-ignore
      env: { OMP_NUM_THREADS: threads, HF_HUB_OFFLINE: '1', DO_NOT_TRACK: '1' },
    },
  }),
};

/** @returns {Promise<string>} a port that was free */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      server.close(() => resolve(String(port)));
    });
  });
}

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Starts a server. Resolves when it has answered.
 * @param {string} name
 */
async function start(name) {
  const port = await freePort();
  const [program, ...words] = SERVERS[name].words(port);
  const child = spawn(program, words, {
    env: { ...process.env, ...SERVERS[name].env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (part) => (said = `${said}${part}`.slice(-4000)));
  for (const begun = performance.now(); ; await sleep(100)) {
    const client = connect(port);
    const what = await client.ask([textOf(0)]);
    client.close();
    if (what === '200') return { child, port };
    if (child.exitCode !== null || performance.now() - begun > 1000 * START_SECONDS)
      throw new Error(`${name} does not answer: ${said}`);
  }
}

/** A process and its children. @param {number} pid @returns {number[]} */
const family = (pid) => [
  pid,
  ...readdirSync(`/proc/${pid}/task`)
    .flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' '))
    .filter(Boolean)
    .flatMap((child) => family(Number(child))),
];

/** @param {number[]} pids @returns {number} resident megabytes */
const residentOf = (pids) =>
  pids.reduce((sum, pid) => sum + Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1e3, 0); // prettier-ignore

/** @param {number[]} pids @returns {number} milliseconds of processor time */
function processorOf(pids) {
  const ticks = pids.map((pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return Number(fields[11]) + Number(fields[12]);
  });
  return (1000 / TICKS) * ticks.reduce((sum, value) => sum + value, 0);
}

/** The program without a server: texts a second, and milliseconds of processor time a text. */
function alone() {
  const n = 8_000;
  const words = ['-c', '"$@" > /dev/null && times', 'sh', PROGRAM];
  words.push('embed', '-t', threads, '-m', model, '--format', 'f32');
  const input = Array.from({ length: n }, (_, i) => textOf(i)).join('\n');
  const begun = performance.now();
  const { stdout } = spawnSync('sh', words, { input, encoding: 'utf8' });
  const perSecond = (1000 * n) / (performance.now() - begun);
  const [, ofChild] = stdout.split('\n'); // such as 0m1.350s 0m0.040s
  const ms = [...ofChild.matchAll(/(\d+)m([\d.]+)s/g)].map(([, min, sec]) => 6e4 * Number(min) + 1e3 * Number(sec)); // prettier-ignore
  return { perSecond, processorMs: (ms[0] + ms[1]) / n };
}

/**
 * A client that asks for embeddings by OpenAI's route, which all servers have, one request after the other, over a connection
 * that it keeps as long as the server does. It takes little of the processor, which it shares with the server: of a reply
 * it reads the first line and the length.
 * @param {string} port
 */
function connect(port) {
  /** @type {import('node:net').Socket | undefined} */
  let socket;
  /** @type {(what: string) => void} */
  let resolve = () => {};
  /** @type {Buffer[]} */
  let parts = [];
  let missing = -1; // bytes of the reply; -1: its head is not whole
  let status = '';
  let retry = 0;
  let isLast = false; // the server closes the connection after this reply

  /** @param {string} what */
  const end = (what) => {
    parts = [];
    missing = -1;
    if (isLast) socket = undefined;
    isLast = false;
    if (what === '429') setTimeout(() => resolve(what), 1000 * retry);
    else resolve(what);
  };

  /** @param {Buffer} part */
  const receive = (part) => {
    if (missing < 0) {
      parts.push(part);
      const all = parts.length > 1 ? Buffer.concat(parts) : part;
      const length = all.indexOf('\r\n\r\n') + 4;
      if (length < 4) return;
      const head = all.latin1Slice(0, length);
      status = head.slice(9, 12);
      retry = Number(/\r\nretry-after: *(\d+)/i.exec(head)?.[1] ?? 1);
      const body = /\r\ncontent-length: *(\d+)/i.exec(head);
      if (!body) return socket?.destroy(new Error('no content-length'));
      isLast = /\r\nconnection: *close/i.test(head);
      missing = Number(body[1]) + length - all.length;
    } else missing -= part.length;
    if (missing === 0) end(status);
  };

  const open = () => {
    const opened = createConnection({ port: Number(port), host: '127.0.0.1', noDelay: true });
    let failure = 'closed';
    opened.on('data', receive);
    opened.on('error', (error) => (failure = /** @type {any} */ (error).code ?? error.message));
    opened.on('close', () => {
      if (socket !== opened) return;
      socket = undefined;
      end(failure);
    });
    return opened;
  };

  return {
    /**
     * Resolves with the status of the reply or the error, and after 429 when the server wants to be asked again.
     * @param {string[]} texts @returns {Promise<string>}
     */
    ask: (texts) =>
      new Promise((done) => {
        resolve = done;
        const body = JSON.stringify({ model: 'model', input: texts });
        socket ??= open();
        socket.write(`POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`); // prettier-ignore
      }),
    close: () => socket?.destroy(),
  };
}

/**
 * Has clients ask a server for some seconds.
 * @param {string} name
 * @param {number} clients
 * @param {number} texts
 */
async function load(name, clients, texts) {
  const { child, port } = await start(name);
  /** @type {Record<string, number>} */
  const replies = {};
  /** @type {number[]} milliseconds of replies with 200 */
  const waits = [];
  let asked = 0;
  const pids = family(child.pid ?? 0);
  const resident = [residentOf(pids)];
  const watching = setInterval(() => resident.push(residentOf(pids)), (1000 * seconds) / 6);
  const processor = processorOf(pids);
  const used = process.cpuUsage();
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: clients }, async () => {
      const client = connect(port);
      while (performance.now() < begun + 1000 * seconds) {
        const sent = performance.now();
        const what = await client.ask(Array.from({ length: texts }, () => textOf(asked++)));
        replies[what] = (replies[what] ?? 0) + 1;
        if (what === '200') waits.push(performance.now() - sent);
      }
      client.close();
    }),
  );
  const ms = performance.now() - begun;
  const served = waits.length * texts;
  const processorMs = (processorOf(pids) - processor) / served;
  const { user, system } = process.cpuUsage(used);
  const clientMs = (user + system) / 1000 / served;
  clearInterval(watching);
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
  waits.sort((a, b) => a - b);
  const at = (/** @type {number} */ share) =>
    waits[Math.min(waits.length - 1, Math.floor(share * waits.length))];
  return { replies, perSecond: (1000 * served) / ms, processorMs, clientMs, waits: [at(0.5), at(0.99), at(1)], resident }; // prettier-ignore
}

/** @typedef {Awaited<ReturnType<typeof load>>} Load */
/** @typedef {ReturnType<typeof alone>} Alone */
/** @type {{ server: string, clients: number, texts: number, alone: Alone, runs: Load[] }[]} */
const rows = [];
for (const clients of values.clients.split(',').map(Number))
  for (const texts of values.texts.split(',').map(Number)) {
    const names = Object.keys(SERVERS);
    const runs = names.map(() => /** @type {Load[]} */ ([]));
    /** @type {Alone[]} */
    const program = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      program.push(alone());
      for (const i of names.map((_, at) => (at + round) % names.length)) {
        process.stderr.write(`\r${clients} clients, ${texts} texts a request, round ${round}, ${names[i]}\x1b[K`); // prettier-ignore
        runs[i].push(await load(names[i], clients, texts));
      }
    }
    const perSecond = median(program.map((one) => one.perSecond));
    const processorMs = median(program.map((one) => one.processorMs));
    names.forEach((server, i) =>
      rows.push({ server, clients, texts, alone: { perSecond, processorMs }, runs: runs[i] }),
    );
  }
process.stderr.write('\n');
const report = { when: new Date().toISOString(), cpu: cpus()[0].model, ...values, rows };
if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
console.log(`${seconds} s, ${threads} threads, medians of ${values.rounds} rounds\n`);
console.log('| clients | texts a request | server | texts/s | of wisp embed | processor, ms a text | of wisp embed | the clients, ms a text | waits, ms: median, p99, most | memory, MB, over time | replies |\n|---|---|---|---|---|---|---|---|---|---|---|'); // prettier-ignore
for (const { server, clients, texts, alone: program, runs } of rows) {
  const middle = runs.find((run) => run.perSecond === median(runs.map((one) => one.perSecond)));
  if (!middle) throw new Error('no round was run');
  const { perSecond, processorMs, clientMs, waits, resident, replies } = middle;
  const counts = Object.entries(replies).map(([what, n]) => `${n} of ${what}`);
  const cells = [
    ...[clients, texts, server, perSecond.toFixed(0)],
    `${(perSecond / program.perSecond).toFixed(2)} of ${program.perSecond.toFixed(0)}`,
    processorMs.toFixed(3),
    `${(program.processorMs / processorMs).toFixed(2)} of ${program.processorMs.toFixed(3)}`,
    clientMs.toFixed(3),
    waits.map((wait) => wait.toFixed(0)).join(', '),
    resident.map((value) => value.toFixed(1)).join(', '),
    counts.join(', '),
  ];
  console.log(`| ${cells.join(' | ')} |`);
}
