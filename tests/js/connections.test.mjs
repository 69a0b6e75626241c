// SPDX-License-Identifier: Apache-2.0
// The program and the package call nothing that connects to other machines or starts other programs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { PROGRAM, ROOT } from './support.mjs';

/** Functions of the C library that connect, start programs or load code. */
const FORBIDDEN =
  /^(socket(pair)?|connect|bind|listen|accept4?|getaddrinfo|gethostbyname\w*|send(to|m?msg)?|recv(from|m?msg)?|v?fork|clone3?|f?exec(l|le|lp|v|ve|vp|vpe|veat)|popen|system|posix_spawnp?|dlm?open)$/;

test('the program asks the C library for nothing that connects, starts programs or loads code', () => {
  const listing = execFileSync('nm', ['--undefined-only', PROGRAM], { encoding: 'utf8' });
  const names = [...listing.matchAll(/ U (\w+)/g)].map(([, name]) => name);
  assert.ok(names.includes('read') && names.includes('malloc'), listing);
  assert.deepEqual(
    names.filter((name) => FORBIDDEN.test(name)),
    [],
  );
});

test("the package imports only Node's files, threads, hashes and addresses, and its program a server", () => {
  const allowed = ['crypto', 'fs/promises', 'module', 'os', 'path', 'process', 'url', 'vm', 'worker_threads']; // prettier-ignore
  const allowedOfProgram = [...allowed, 'fs', 'http', 'net', 'util'];
  for (const name of readdirSync(`${ROOT}js`).filter((file) => /\.c?js$/.test(file))) {
    const isProgram = /^(cli|serve)\b/.test(name);
    const source = readFileSync(`${ROOT}js/${name}`, 'utf8');
    const imported = [...source.matchAll(/(?:from |import\(|require\()'([^.'][^']*)'/g)];
    for (const [, module] of imported)
      assert.ok(
        (isProgram ? allowedOfProgram : allowed).includes(module.replace('node:', '')),
        `${name}: ${module}`,
      );
  }
});
