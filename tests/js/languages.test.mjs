// SPDX-License-Identifier: Apache-2.0
// The module that reads chat templates, grammars and schemas: who loads it, and what happens without it.
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Generator } from '../../js/generate-node.js';
import { TextEngine } from '../../js/engine/text-engine.js';
import { pickBuild } from '../../js/calls/load.js';
import { readBytes } from '../../js/platform/platform-node.js';
import { ROOT } from './support.mjs';

const PROMPT = 'Once upon a time';
const GRAMMAR = 'root ::= " yes" | " no"';
const folder = mkdtempSync(join(tmpdir(), 'wisp-languages-'));
after(() => rmSync(folder, { recursive: true }));

/** A copy of the package's folders without the module. */
function copyWithout() {
  const js = join(folder, 'js');
  mkdirSync(js);
  symlinkSync(`${ROOT}models`, join(folder, 'models'));
  for (const name of [`wisp-generate-${pickBuild()}.wasm`, `wisp-threads-${pickBuild()}.wasm`])
    copyFileSync(`${ROOT}js/${name}`, join(js, name));
  return folder;
}

test('only texts that need the module load it, and say where it should be', async () => {
  const files = copyWithout();
  const worker = new URL('../../js/generate-worker-node.js', import.meta.url);
  for (const workers of [1, 0]) {
    const options = { files, worker, workers, backend: /** @type {const} */ ('wasm') };
    const generator = await Generator.load(undefined, options);
    const plain = () => generator.generate(PROMPT, { maxTokens: 4 }).text();
    const before = await plain();
    const bound = () => generator.generate(PROMPT, { grammar: GRAMMAR }).text();
    await assert.rejects(bound(), { code: 'not_found', message: /wisp-languages\.wasm/ });
    await assert.rejects(generator.chat([{ role: 'user', content: 'a' }]).text(), {
      message: /wisp-languages\.wasm/,
    });
    assert.equal(await plain(), before);
    const module = join(files, 'js/wisp-languages.wasm');
    copyFileSync(`${ROOT}js/wisp-languages.wasm`, module);
    assert.match(await bound(), /^ (yes|no)$/);
    rmSync(module);
    assert.match(await bound(), /^ (yes|no)$/); // it is compiled once
    await generator.close();
  }
});

test('texts are written in their order, and close() waits for the one that waits for the module', async () => {
  const generator = await Generator.load(undefined, { backend: 'wasm' });
  /** @type {string[]} */
  const done = [];
  const first = generator.generate(PROMPT, { grammar: GRAMMAR }).text();
  const second = generator.generate(PROMPT, { maxTokens: 2 }).text();
  void first.then(() => done.push('first'));
  void second.then(() => done.push('second'));
  await generator.close();
  assert.match(await first, /^ (yes|no)$/);
  await second;
  assert.deepEqual(done, ['first', 'second']);
});

test('a text that nobody wants any more is not begun when the module has come', async () => {
  const generator = await Generator.load(undefined, { backend: 'wasm' });
  const stop = new AbortController();
  const text = generator.generate(PROMPT, { grammar: GRAMMAR, signal: stop.signal }).text();
  stop.abort();
  await assert.rejects(text, { name: 'AbortError' });
  assert.match(await generator.generate(PROMPT, { grammar: GRAMMAR }).text(), /^ (yes|no)$/);
  await generator.close();
});

test('faults in a grammar, a schema and a template are those of native code', async () => {
  const outcomes = [];
  for (const backend of /** @type {const} */ (['wasm', 'auto'])) {
    const generator = await Generator.load(undefined, { backend });
    const faults = [
      () => generator.generate(PROMPT, { grammar: 'root ::= (' }),
      () => generator.generate(PROMPT, { jsonSchema: '{' }),
      () => generator.generate(PROMPT, { jsonSchema: { minimum: 2, maximum: 1, type: 'number' } }),
      () => generator.chat([{ role: 'user', content: 'a' }], { template: '{% if %}' }),
      () => generator.chat([{ role: 'user', content: 'a' }], { template: '{{ raise_exception("x") }}' }), // prettier-ignore
      () => generator.chat([{ role: 'user', content: 'a' }], { template: 'a', thinking: false }),
    ];
    const told = [];
    for (const fault of faults) {
      const error = await fault().text().then(assert.fail, (/** @type {any} */ reason) => reason); // prettier-ignore
      told.push([error.code, error.field, error.message]);
    }
    outcomes.push(told);
    await generator.close();
  }
  assert.deepEqual(outcomes[0], outcomes[1]);
});

test('an engine without the module says so, and counts the memory of the module', async () => {
  const build = pickBuild();
  const compile = async (/** @type {string} */ name) =>
    WebAssembly.compile(await readBytes(`${ROOT}js/${name}.wasm`));
  const model = await readBytes(`${ROOT}models/wisp-stories.gguf`);
  const engine = /** @type {TextEngine} */ (
    await TextEngine.open(await compile(`wisp-generate-${build}`), model)
  );
  const options = { seed: 1, stop: [], stopTokens: [], logitBias: [], maxTokens: 4 };
  const wanted = [{ prompt: PROMPT, options: { ...options, grammar: GRAMMAR } }];
  await assert.rejects(engine.write(wanted), { code: 'unsupported', field: 'languages' });
  const before = engine.memoryBytes;
  const work = await engine.write(wanted, 0, await compile('wisp-languages'));
  assert.ok(engine.memoryBytes > before);
  let text = '';
  for (let ended = false; !ended;) {
    const part = work.run(0.01);
    for (const piece of part.pieces) text += piece.text;
    ({ ended } = part);
  }
  work.close();
  assert.match(text, /^ (yes|no)$/);
  engine.close();
});
