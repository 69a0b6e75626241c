// SPDX-License-Identifier: Apache-2.0
// `make install` into a folder whose name has a space, and the header in C and C++ if warnings are errors.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ROOT } from './support.mjs';

const folder = mkdtempSync(join(tmpdir(), 'wisp install-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} program @param {string[]} args */
function run(program, args) {
  const { status, stderr, stdout } = spawnSync(program, args, { cwd: ROOT, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout;
}

test('the installed program and header work, and wisp.pc names their folder', () => {
  const prefix = join(folder, 'a b & c');
  run('make', ['--old-file=native', 'install', `PREFIX=${prefix}`]);
  assert.match(run(join(prefix, 'bin/wisp'), ['embed', '--text', 'a']), /^-?[\d.e-]+ /);
  const about = readFileSync(join(prefix, 'lib/pkgconfig/wisp.pc'), 'utf8');
  assert.ok(about.startsWith(`prefix=${prefix}\n`), about);
  assert.match(readFileSync(join(prefix, 'share/man/man1/wisp.1'), 'utf8'), /^\.SH WISP EMBED$/m);
  assert.ok(statSync(join(prefix, 'lib/libwisp.so')).size < 4e6, 'symbols for debuggers are there');
  const source = join(folder, 'use.c');
  writeFileSync(
    source,
    `#include <wisp.h>
     // A function of each header that wisp.h includes.
     typedef void (*address)(void);
     int main(void) {
         wisp_error error = WISP_ERROR_NONE;
         const address used[] = {(address)wisp_model_get_weights, (address)wisp_score, (address)wisp_session_needs,
                                 (address)wisp_index_create, (address)wisp_quantize};
         return (int)error.status + error.message[0] + (used[0] == used[1]);
     }\n`,
  );
  const strict = ['-Wall', '-Wextra', '-Wpedantic', '-Werror', '-fsyntax-only'];
  const include = `-I${join(prefix, 'include')}`;
  run('gcc', [...strict, '-std=c11', include, source]);
  if (spawnSync('g++', ['--version']).status !== 0) return console.log('skipped: C++: no g++');
  run('g++', [...strict, '-std=c++11', include, '-x', 'c++', source]);
});

test('make uninstall removes all that make install wrote', () => {
  const prefix = join(folder, 'gone');
  run('make', ['--old-file=native', 'install', `DESTDIR=${folder}`, 'PREFIX=/gone']);
  assert.ok(
    readFileSync(join(prefix, 'lib/pkgconfig/wisp.pc'), 'utf8').startsWith('prefix=/gone\n'),
  );
  run('make', ['uninstall', `DESTDIR=${folder}`, 'PREFIX=/gone']);
  const left = readdirSync(prefix, { recursive: true, withFileTypes: true });
  assert.deepEqual(
    left.filter((entry) => !entry.isDirectory()).map(({ name }) => name),
    [],
  );
});

test('bash completes commands, and options of a command', () => {
  run('python3', ['tools/write_manual.py', 'build/wisp', join(folder, 'manual')]);
  /** @param {string[]} words */
  const complete = (...words) =>
    run('bash', [
      '-c',
      'source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _wisp; echo "${COMPREPLY[@]}"',
      ...['bash', join(folder, 'manual/wisp.bash'), 'wisp', ...words],
    ]).trim();
  assert.equal(complete('emb'), 'embed');
  assert.equal(complete('help', 'cal'), 'calibrate');
  assert.equal(complete('embed', '--mod'), '--model');
  assert.equal(complete('embed', 'notes'), '');
});
