// SPDX-License-Identifier: Apache-2.0
// Finds the processes of a browser and their memory in Linux's /proc.
import { readFileSync, readdirSync } from 'node:fs';

/** Commands of Chromium's and Firefox's page processes match this. */
const PAGE_PROCESS = /--type=renderer|-isForBrowser/;

/** Commands of Chromium's own window, which consists of pages too, match this. */
const OWN_WINDOW = /--top-chrome-webui/;

/**
 * Returns the largest page process below `ancestor`, because browsers keep an empty one in reserve.
 * @param {number} ancestor
 */
export function pageProcess(ancestor) {
  const pages = descendants(ancestor).filter((pid) => isPage(readCommand(pid)));
  return pages.sort((a, b) => residentPages(b) - residentPages(a))[0];
}

/** @param {string} command */
const isPage = (command) => PAGE_PROCESS.test(command) && !OWN_WINDOW.test(command);

/**
 * Returns a process and all its descendants.
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
    return ''; // the process has ended
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
 * Returns a process's megabytes, in which a page of n processes counts as 1/n (PSS): `own` memory,
 * and `program`, the pages of files that it runs from and that all processes of a browser use.
 * @param {number} pid
 */
export function proportionalMegabytes(pid) {
  const text = readOrNothing(`/proc/${pid}/smaps_rollup`);
  /** @param {string} field */
  const of = (field) =>
    (Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024) / 1e6;
  return { own: of('Pss_Anon') + of('Pss_Shmem'), program: of('Pss_File') };
}
