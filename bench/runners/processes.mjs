// SPDX-License-Identifier: Apache-2.0
// A browser's processes and their memory, as Linux tells.
import { readFileSync, readdirSync } from 'node:fs';

/** What marks the processes of pages, Chromium's and Firefox's. */
const PAGE_PROCESS = /--type=renderer|-isForBrowser/;

/** What marks Chromium's own window, which is made of pages too. */
const OWN_WINDOW = /--top-chrome-webui/;

/**
 * The largest process of a page below `ancestor`: browsers keep an empty one in stock.
 * @param {number} ancestor
 */
export function pageProcess(ancestor) {
  const pages = descendants(ancestor).filter((pid) => isPage(readCommand(pid)));
  return pages.sort((a, b) => residentPages(b) - residentPages(a))[0];
}

/** @param {string} command */
const isPage = (command) => PAGE_PROCESS.test(command) && !OWN_WINDOW.test(command);

/**
 * A process and all below it.
 * @param {number} ancestor
 */
export function descendants(ancestor) {
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

const PAGE_BYTES = 4096;

/** @param {number} pid */
export const residentMegabytes = (pid) => (residentPages(pid) * PAGE_BYTES) / 1e6;

/** @param {number} pid */
const residentPages = (pid) => Number(readOrNothing(`/proc/${pid}/statm`).split(' ')[1]);

/**
 * Megabytes of a process where what it shares with others counts in part (PSS): its own memory, and
 * pages of files that it runs from, which are the same in all processes of a browser.
 * @param {number} pid
 */
export function proportionalMegabytes(pid) {
  const text = readOrNothing(`/proc/${pid}/smaps_rollup`);
  /** @param {string} field */
  const of = (field) =>
    (Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024) / 1e6;
  return { own: of('Pss_Anon') + of('Pss_Shmem'), program: of('Pss_File') };
}
