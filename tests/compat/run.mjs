// SPDX-License-Identifier: Apache-2.0
// Installs real bundlers and runtimes from npm into build/compat/, uses the packed package with each, and prints
// a table: node tests/compat/run.mjs [NAME...]
import { execFile, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { serve } from '../../js/program/serve.js';
import { CHROMIUM } from '../js/browsers.mjs';
import { ROOT } from '../js/support.mjs';
import { environments } from './environments.mjs';

const HOME = join(ROOT, 'build/compat');
const STEP_MS = 300_000;
/** Next.js has 250 MB of packages, which a busy machine unpacks for minutes. */
const INSTALL_MS = 1_200_000;
const PAGE_MS = 60_000;
const RAN = /^3 rows, 2 workers$/;

// Not the environment of the make or npm that runs this.
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|MAKE|NODE_OPTIONS|NODE_TEST)/.test(name)),
);
Object.assign(env, { NEXT_TELEMETRY_DISABLED: '1', CI: '1', NO_COLOR: '1' });
// The packages of transformers.js would load libraries for GPUs.
env.ONNXRUNTIME_NODE_INSTALL = 'skip';

/** @param {string[]} command @param {string} cwd @param {number} [timeout] */
async function run([program, ...args], cwd, timeout = STEP_MS) {
  const path = program.replace('TOOLS', join(ROOT, '.tools/bin'));
  try {
    const done = await promisify(execFile)(path, args, {
      cwd,
      env,
      timeout,
      maxBuffer: 1e8,
    });
    return done.stdout + done.stderr;
  } catch (error) {
    const { stdout = '', stderr = '', message } = /** @type {any} */ (error);
    throw new Error(`${program} ${args.join(' ')}: ${message} ${stdout}${stderr}`, {
      cause: error,
    });
  }
}

/** @returns {Promise<number>} */
const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });

/**
 * Starts a server of its own and waits until it answers.
 * @param {string[]} command
 * @param {string} cwd
 */
async function startServer(command, cwd) {
  const port = await freePort();
  const [program, ...args] = command.map((word) => word.replace('PORT', String(port)));
  const child = spawn(program, args, { cwd, env, detached: true, stdio: 'ignore' });
  const origin = `http://127.0.0.1:${port}`;
  const close = async () => void process.kill(-(/** @type {number} */ (child.pid)));
  for (let i = 0; i < 120; i++) {
    if (
      await fetch(origin).then(
        () => true,
        () => false,
      )
    )
      return { origin, close };
    await new Promise((done) => setTimeout(done, 500));
  }
  await close();
  throw new Error(`${program} does not answer`);
}

/**
 * Opens a page and returns its result. A development server may load the page again when it has found out
 * what the page imports.
 * @param {string} url
 */
async function resultOf(url) {
  const browser = await chromium.launch(CHROMIUM);
  try {
    const page = await browser.newPage();
    const log = /** @type {string[]} */ ([]);
    page.on('pageerror', (error) => log.push(String(error)));
    const result = new Promise((resolve) => {
      page.on('console', (message) => {
        if (/rows|tokens:|WispError/.test(message.text())) resolve(message.text());
        else log.push(message.text());
      });
      setTimeout(() => resolve(`no result: ${log.join(' | ')}`), PAGE_MS).unref();
    });
    await page.goto(url);
    return await result;
  } finally {
    await browser.close();
  }
}

/**
 * @param {string} name
 * @param {string} archive of the package
 */
async function tryOut(name, archive) {
  const {
    packages,
    files,
    steps = [],
    site,
    server,
    path = '/',
    copied,
    prints,
    says,
    refused,
    isolated,
  } = environments[name];
  // Environments of the same packages share a folder, so that they are installed once.
  const folder = join(HOME, (packages[0] ?? 'plain').replace(/[@/]/g, '-'));
  mkdirSync(folder, { recursive: true });
  for (const old of readdirSync(folder)) {
    if (!/^(node_modules|package)/.test(old)) rmSync(join(folder, old), { recursive: true });
  }
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  const install = [
    'npm',
    'install',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--loglevel=error',
  ];
  const cache = ['--cache', join(ROOT, '.tools/npm-cache')];
  await run([...install, ...cache, ...packages, archive], folder, INSTALL_MS);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  let printed = '';
  for (const step of steps) printed = await run(step, folder);
  if (copied) {
    for (const part of ['js', 'models']) {
      const from = join(folder, 'node_modules/wisp-engine', part);
      cpSync(from, join(folder, /** @type {string} */ (site), 'wisp', part), { recursive: true });
    }
  }
  const version = packages[0]
    ? JSON.parse(
        readFileSync(
          join(folder, 'node_modules', packages[0].replace(/(.)@.*/, '$1'), 'package.json'),
          'utf8',
        ),
      ).version
    : (await run(steps[0].slice(0, 1).concat('--version'), folder)).trim();
  if (!site && !server) {
    if (prints && !prints.test(printed)) throw new Error(printed);
    const lines = printed.split('\n');
    return { version, result: prints ? lines.find((line) => prints.test(line)) : 'passes' };
  }
  const serving = server
    ? await startServer(server, folder)
    : await serve({ root: join(folder, /** @type {string} */ (site)), isolated });
  try {
    const result =
      path === '/'
        ? await resultOf(serving.origin + path)
        : await (await fetch(serving.origin + path)).text();
    if (!(refused ?? says ?? RAN).test(result)) throw new Error(result);
    return { version, result };
  } finally {
    await serving.close();
  }
}

const wanted = process.argv.slice(2);
for (const name of wanted) {
  if (!environments[name])
    throw new Error(`${name}: there are ${Object.keys(environments).join(' ')}`);
}
mkdirSync(HOME, { recursive: true });
await run(['node', 'tools/pack.mjs', join(HOME, 'npm')], ROOT);
await run(['npm', 'pack', '--silent', '--pack-destination', HOME], join(HOME, 'npm'));
const archive = readdirSync(HOME).find((file) => file.endsWith('.tgz'));
if (!archive || !existsSync(join(HOME, archive))) throw new Error('npm pack made no archive');
let failed = 0;
for (const name of wanted.length > 0 ? wanted : Object.keys(environments)) {
  try {
    const { version, result } = await tryOut(name, join(HOME, archive));
    console.log(`ok      ${name} (${version}): ${String(result).slice(0, 100)}`);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}: ${/** @type {Error} */ (error).message.slice(0, 3000)}`);
  }
}
console.log(`${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
