// SPDX-License-Identifier: Apache-2.0
// Headless browsers of .tools/, each with a fresh profile. One more browser is one more entry here.
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const BIN = fileURLToPath(new URL('../../.tools/bin/', import.meta.url));

const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/**
 * @typedef {object} Browser
 * @property {import('playwright-core').Page} page
 * @property {string} version
 * @property {number} pid of this runner, from which the browser's processes descend
 * @property {() => Promise<void>} close
 */

/** @type {Record<string, () => Promise<Browser>>} */
const LAUNCH = {
  async chromium() {
    const browser = await chromium.launch({
      executablePath: `${BIN}chromium`,
      args: CHROMIUM_FLAGS,
    });
    return {
      page: await browser.newPage(),
      version: browser.version(),
      pid: process.pid,
      close: () => browser.close(),
    };
  },
};

/** @param {string} name */
export async function launch(name) {
  if (!LAUNCH[name]) throw new Error(`no browser '${name}'; there are ${Object.keys(LAUNCH)}`);
  return LAUNCH[name]();
}

/** What marks the processes of pages. */
const PAGE_PROCESS = /--type=renderer/;

/**
 * The largest process of a page below `ancestor`: browsers keep an empty one in stock.
 * @param {number} ancestor
 */
export function pageProcess(ancestor) {
  const pages = descendants(ancestor).filter((pid) => PAGE_PROCESS.test(readCommand(pid)));
  return pages.sort((a, b) => residentPages(b) - residentPages(a))[0];
}

/** @param {number} ancestor */
function descendants(ancestor) {
  const parents = new Map(allProcesses().map((pid) => [pid, parentOf(pid)]));
  const found = [ancestor];
  for (const pid of found) {
    parents.forEach((parent, child) => parent === pid && found.push(child));
  }
  return found;
}

const allProcesses = () => readdirSync('/proc').filter(Number).map(Number);

/** @param {string} path */
function readOrNothing(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // the process has ended meanwhile
  }
}

/** @param {number} pid */
const readCommand = (pid) => readOrNothing(`/proc/${pid}/cmdline`);

/** @param {number} pid */
const parentOf = (pid) =>
  Number(readOrNothing(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ')[1]);

/** @param {number} pid */
const residentPages = (pid) => Number(readOrNothing(`/proc/${pid}/statm`).split(' ')[1]);
