// SPDX-License-Identifier: Apache-2.0
// One version: WISP_VERSION in src/wisp.h, and everything else that states one agrees.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Embedder } from '../../js/node.js';
import { VERSION } from '../../js/base/version.js';
import { ROOT, smallModel, wisp } from './support.mjs';

/** @param {string} name */
const read = (name) => readFileSync(ROOT + name, 'utf8');

const version = /#define WISP_VERSION "(.*)"/.exec(read('src/wisp.h'))?.[1] ?? '';

describe(`version ${version}`, () => {
  test('is three numbers', () => assert.match(version, /^\d+\.\d+\.\d+$/));

  test('package.json and package-lock.json', () => {
    assert.equal(JSON.parse(read('package.json')).version, version);
    const lock = JSON.parse(read('package-lock.json'));
    assert.equal(lock.version, version);
    assert.equal(lock.packages[''].version, version);
  });

  test('js/base/version.js, which an addon must equal', () => assert.equal(VERSION, version));

  test('CHANGELOG.md: the newest version that is closed, with its date', () => {
    const sections = [...read('CHANGELOG.md').matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    assert.equal(sections[0], 'Unreleased');
    assert.match(sections[1], /^\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}$/);
    assert.equal(sections[1].split(' ')[0], version);
  });

  test('the pkg-config file and the library take it from the Makefile, which reads wisp.h', () => {
    assert.match(read('tools/wisp.pc.in'), /^Version: @VERSION@$/m);
    const makefile = read('Makefile');
    assert.match(makefile, /^VERSION := .*WISP_VERSION.*src\/wisp\.h\)$/m);
    assert.match(makefile, /s\|@VERSION@\|\$\(VERSION\)\|/);
    const [major] = version.split('.');
    assert.match(makefile, new RegExp(`-soname,libwisp\\.so\\.${major} `));
  });

  test('the program and the module say it', async () => {
    assert.ok(wisp(['--version']).out.startsWith(`wisp ${version} (`));
    const embedder = await Embedder.load(smallModel(), { workers: 1 });
    assert.ok(embedder.info().build.startsWith(`wisp ${version} (`));
    await embedder.close();
  });

  test('no page of the documentation names another', () => {
    const pages = readdirSync(`${ROOT}docs`).filter((name) => name.endsWith('.md'));
    for (const page of ['README.md', 'SECURITY.md', ...pages.map((name) => `docs/${name}`)]) {
      for (const [found, stated] of read(page).matchAll(/wisp(?:-engine@| )v?(\d+\.\d+\.\d+)/g)) {
        assert.equal(stated, version, `${page}: ${found}`);
      }
    }
  });
});
