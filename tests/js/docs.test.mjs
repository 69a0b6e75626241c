// SPDX-License-Identifier: Apache-2.0
// The documentation agrees with the tests, files, options and figures that it names.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { LOAD_OPTIONS } from '../../js/base/options.js';
import { environments } from '../compat/environments.mjs';
import { bytesOf, scriptsOf } from './shipped.mjs';
import { PROGRAM, ROOT } from './support.mjs';

/** @param {string} name of a file, from the top of the checkout */
const read = (name) => readFileSync(ROOT + name, 'utf8');

/** @param {string} folder @param {RegExp} ending @returns {string[]} paths from the top of the checkout */
const filesIn = (folder, ending) =>
  readdirSync(ROOT + folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((name) => ending.test(name) && !name.includes('node_modules'));

const PAGES = [
  ...['README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'models/README.md'],
  ...['docs', 'tests', 'bench', 'tools'].flatMap((folder) => filesIn(folder, /\.md$/)),
];

test('pages name files, tests and functions that exist', () => {
  const sources = ['tests', 'python/tests'].flatMap((folder) => filesIn(folder, /\.(c|py)$/));
  const code = sources.map(read).join('\n');
  for (const page of PAGES) {
    const text = read(page);
    const paths =
      /(?<![\w./-])(tests|tools|bench|docs|js|web-demo)\/[\w/.-]+\.(c|h|m?js|py|sh|md|html)\b/g;
    for (const [name] of text.matchAll(paths)) {
      const places = [ROOT, join(ROOT, dirname(page))];
      assert.ok(
        places.some((place) => existsSync(join(place, name))),
        `${page}: ${name}`,
      );
    }
    for (const [name] of text.matchAll(/(?<![\w/-])[\w-]+\.test\.mjs/g)) {
      assert.ok(existsSync(`${ROOT}tests/js/${name}`), `${page}: ${name}`);
    }
    for (const [name] of text.matchAll(/(?<![\w/-])test_[a-z]\w+/g)) {
      const isFile = sources.some((path) => /[^/]*$/.exec(path)?.[0].startsWith(`${name}.`));
      assert.ok(isFile || code.includes(name), `${page}: ${name}`);
    }
  }
});

/** The names by which a page's headings are linked to. @param {string} text */
const anchorsOf = (text) =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );

test('links lead to files and headings', () => {
  for (const page of PAGES) {
    for (const [, to] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(to)) continue;
      const [path, anchor] = to.split('#');
      const target = path === '' ? page : join(dirname(page), path);
      assert.ok(existsSync(ROOT + target), `${page}: ${to}`);
      if (anchor !== undefined) {
        assert.ok(anchorsOf(read(target)).includes(anchor), `${page}: ${to}`);
      }
    }
  }
});

test('the index of docs/decisions.md has each entry once', () => {
  const text = read('docs/decisions.md');
  const entries = [...text.matchAll(/^## (\d+)\. /gm)].map(([, number]) => number);
  const listed = [...text.matchAll(/\[(\d+)\]\(#\1-/g)].map(([, number]) => number);
  assert.deepEqual(listed.sort(), entries.sort());
});

test('pages name targets of make', () => {
  const rules = [
    'Makefile',
    'tests/rules.mk',
    'tests/cuda/rules.mk',
    'python/rules.mk',
    'bench/rules.mk',
  ]
    .map(read)
    .join('\n');
  const targets = new Set(
    [...rules.matchAll(/^(?:\.PHONY: *)?([a-z][\w -]*?) *(?::|$)/gm)].flatMap(([, names]) =>
      names.split(' '),
    ),
  );
  for (const page of PAGES) {
    for (const [, names] of read(page).matchAll(
      /(?:^ {4}|`|&& )make((?: [a-z][\w-]*(?![\w/.=-]))+)/gm,
    )) {
      for (const name of names.trim().split(' ')) assert.ok(targets.has(name), `${page}: ${name}`);
    }
  }
});

/** A command, after a prompt and the place of the program. */
const COMMAND = /^\s*(?:\$ )?(?:build\/|npx )?(wisp|wisp-engine) ([a-z][a-z-]*)(.*)$/;

/** The commands of a page, in examples and within lines, with the options that they have. @param {string} text */
function commandsOf(text) {
  const within = [...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code);
  const examples = text.replaceAll(/\\\n\s*/g, '').match(/^ {4}.*$/gm) ?? [];
  return [...within, ...examples].flatMap((line) =>
    line.split(/\||&&|[<>#]/).flatMap((part) => {
      const [, program, command, rest] = COMMAND.exec(part) ?? [];
      return program ? [{ program, command, options: rest.match(/(?<=\s)--[a-z][\w-]*/g) }] : [];
    }),
  );
}

/** The help of each command, by its name. @type {Map<string, string>} */
const helps = new Map();

/** @param {string} program @param {string} command */
function helpOf(program, command) {
  const name = `${program} ${command}`;
  const [path, ...args] = program === 'wisp' ? [PROGRAM] : [process.execPath, `${ROOT}js/cli.js`];
  const print = (/** @type {string} */ option) =>
    String(spawnSync(path, [...args, command, option]).stdout);
  const known = helps.get(name);
  if (known !== undefined) return known;
  const help = print('--help');
  helps.set(name, help.includes('--help-model') ? help + print('--help-model') : help);
  return helpOf(program, command);
}

test('commands in pages have the options that are shown', () => {
  const unknown = PAGES.flatMap((page) =>
    commandsOf(read(page)).flatMap(({ program, command, options }) =>
      (options ?? ['--help'])
        .filter((option) => !new RegExp(`${option}(?![\\w-])`).test(helpOf(program, command)))
        .map((option) => `${page}: ${program} ${command} ${option}`),
    ),
  );
  assert.deepEqual(unknown, []);
});

test('docs/javascript.md lists the options of load, and the entries of the package', () => {
  const text = read('docs/javascript.md');
  const rows = text.slice(text.indexOf('## Embedder.load'), text.indexOf('## Threads'));
  const listed = [...rows.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell]) =>
    [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name),
  );
  assert.deepEqual(listed.sort(), Object.keys(LOAD_OPTIONS).sort());
  for (const entry of Object.keys(JSON.parse(read('package.json')).exports)) {
    const name = entry.slice(2);
    if (name === '' || /\.(wasm|gguf)$|^package\.json$/.test(name)) continue;
    assert.ok(text.includes(`wisp-engine/${name}`), name);
  }
});

test('README has the figures of bench/RESULTS.md', () => {
  const found = Object.fromEntries(
    [...read('bench/RESULTS.md').matchAll(/^\| (.+?) \| ([\d.]+)x \|/gm)].map(
      ([, what, figure]) => [what.replace(/ \(\d+ ms\)/, ''), figure],
    ),
  );
  /** @type {[row: string, runner: string, peer: string][]} */
  const rows = [
    ['native: onnxruntime int8', 'native, 1 thread', 'onnxruntime-int8@1'],
    ['Node, native code: transformers.js q8', 'Node with the addon, 1 thread', 'node-tjs-q8@1'],
    ['Chromium: transformers.js q8', 'Chromium, 1 worker', 'chromium-tjs-q8@1'],
    ['Chromium: wllama Q8_0', 'Chromium, 1 worker', 'chromium-wllama-q8_0@1'],
    ['Firefox: transformers.js q8', 'Firefox, 1 worker', 'firefox-tjs-q8@1'],
  ];
  const text = read('README.md');
  for (const [row, runner, peer] of rows) {
    const cells = text.split(`\n| ${row} | `)[1]?.split('\n')[0].split('|') ?? [];
    const wanted = ['W1', 'W2'].map((load) => found[`${runner}, ${load}, beside ${peer}`]);
    const stated = cells.slice(0, 2).map((cell) => /[\d.]+(?=x)/.exec(cell)?.[0]);
    assert.deepEqual(stated, wanted, row);
  }
});

test("README's three bars are those of bench/RESULTS.md", () => {
  const { status, stderr } = spawnSync('python3', [`${ROOT}bench/first_chart.py`, '--check']);
  assert.equal(status, 0, String(stderr));
  const [, ...stated] =
    /wisp (\d+), transformers\.js (\d+), wllama (\d+)/.exec(read('README.md')) ?? [];
  const drawn = read('bench/results/first.svg').matchAll(/>(\d+)<\/text>/g);
  assert.deepEqual(
    [...drawn].map(([, rate]) => rate),
    stated,
  );
});

test('docs/compat.md has a row for each environment of make compat', () => {
  const rows = [...read('docs/compat.md').matchAll(/tests\/compat `([^`]+)`/g)];
  assert.deepEqual(rows.map(([, name]) => name).sort(), Object.keys(environments).sort());
});

test('docs/javascript.md and the demo page say how much a page loads', () => {
  const text = read('docs/javascript.md').replaceAll(/\s+/g, ' ');
  const embedding = scriptsOf('browser.js', 'worker-browser.js').reached;
  /** @param {string[]} entries */
  const more = (...entries) =>
    bytesOf([...scriptsOf(...entries).reached].filter((name) => !embedding.has(name)));
  /** @type {[text: string, stated: RegExp, bytes: number][]} */
  const sizes = [
    [
      text,
      /JavaScript is at most (\d+) KB after brotli/,
      scriptsOf('browser.js', 'worker-browser.js').bytes,
    ],
    [
      text,
      /wisp-engine\/cold'; \/\/ in browsers \((\d+) KB\)/,
      more('cold-browser.js', 'cold-worker-browser.js'),
    ],
    [text, /and the worker loads (\d+) KB more/, more('threads-worker-browser.js')],
    [text, /import 'wisp-engine\/hub'` \((\d+) KB after brotli\)/, more('hub-browser.js')],
    [text, /wisp-convert\.wasm \((\d+) KB after brotli\)/, bytesOf(['wisp-convert.wasm'])],
    [
      text,
      /wisp-program\.wasm runs in Node \((\d+) KB after brotli\)/,
      bytesOf(['wisp-program.wasm']),
    ],
    [text, /the module has (\d+) KB after brotli/, bytesOf(['wisp-embed-threads-relaxed.wasm'])],
    [text, /wisp-encoders-\*\.wasm, which has (\d+) KB/, bytesOf(['wisp-encoders-relaxed.wasm'])],
    [text, /a module about (\d+) KB/, bytesOf(['wisp-relaxed.wasm'])],
    [text, /one module of about (\d+) KB/, bytesOf(['wisp-threads-relaxed.wasm'])],
    [text, /wisp-languages\.wasm, which has (\d+) KB/, bytesOf(['wisp-languages.wasm'])],
    [read('web-demo/index.html'), /WebAssembly module of (\d+) KB/, bytesOf(['wisp-relaxed.wasm'])],
    [
      read('web-demo/index.html'),
      /and (\d+)\s+KB of JavaScript/,
      scriptsOf('browser.js', 'threads-worker-browser.js').bytes,
    ],
  ];
  for (const [page, stated, bytes] of sizes) {
    const found = Number(stated.exec(page)?.[1]);
    assert.ok(Math.abs(found - bytes / 1000) <= 2, `${stated}: ${bytes} bytes`);
  }
});
