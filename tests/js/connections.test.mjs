// SPDX-License-Identifier: Apache-2.0
// The package and the library call nothing that connects to other machines or starts other programs; the program loads
// libcurl if a model is a URL, and npx starts the program.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { scriptsIn } from '../../tools/minify.mjs';
import { PROGRAM, ROOT } from './support.mjs';

const LIBRARY = `${ROOT}build/libwisp.so`;
/** The reason to skip the test of the library, or false if it is built. CI builds it. */
const noLibrary =
  existsSync(LIBRARY) || process.env.CI ? false : `${LIBRARY} is not there (make native)`;

/** Functions of the C library that connect, start programs or load code. */
const FORBIDDEN =
  /^(socket(pair)?|connect|bind|listen|accept4?|getaddrinfo|gethostbyname\w*|send(to|m?msg)?|recv(from|m?msg)?|v?fork|clone3?|f?exec(l|le|lp|v|ve|vp|vpe|veat)|popen|system|posix_spawnp?|dlm?open)$/;

/** @param {string} file @param {string[]} options */
const forbiddenIn = (file, ...options) => {
  const listing = execFileSync('nm', ['--undefined-only', ...options, file], { encoding: 'utf8' });
  const names = [...listing.matchAll(/ U (\w+)/g)].map(([, name]) => name);
  assert.ok(names.includes('open') && names.includes('malloc'), listing);
  return names.filter((name) => FORBIDDEN.test(name));
};

test('the program asks the C library for nothing that connects or starts programs, and loads libcurl, CivetWeb, libwisp-cuda and libwisp-images alone', () => {
  assert.deepEqual(forbiddenIn(PROGRAM), ['dlopen']);
  const loading = readdirSync(`${ROOT}src`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.c'))
    .filter((file) => /\bdlopen\(/.test(readFileSync(`${ROOT}src/${file}`, 'utf8')));
  assert.deepEqual(loading.sort(), [
    'device/find_library.c',
    'http/curl.c',
    'images/library.c',
    'serve/civetweb.c',
  ]);
});

test('the library loads no code but libwisp-cuda, either', { skip: noLibrary }, () => {
  assert.deepEqual(forbiddenIn(LIBRARY, '--dynamic'), ['dlopen']);
});

test("the package imports only Node's files, threads, timers, hashes, addresses and terminals, and its program a server and wisp", () => {
  const allowed = ['crypto', 'fs', 'fs/promises', 'module', 'os', 'path', 'process', 'timers/promises', 'tty', 'url', 'vm', 'worker_threads']; // prettier-ignore
  const allowedOfProgram = [...allowed, 'http', 'net', 'stream', 'stream/promises', 'util'];
  const allowedOf = (/** @type {string} */ name) => {
    if (name === 'program/cli-program.js') return [...allowed, 'child_process', 'readline'];
    return /^(cli\.js$|program\/)/.test(name) ? allowedOfProgram : allowed;
  };
  for (const name of scriptsIn(`${ROOT}js`)) {
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8');
    const imported = [...source.matchAll(/(?:from |import\(|require\()'([^.'][^']*)'/g)];
    for (const [, module] of imported)
      assert.ok(allowedOf(name).includes(module.replace('node:', '')), `${name}: ${module}`);
  }
});
