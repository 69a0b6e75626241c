// SPDX-License-Identifier: Apache-2.0
// wisp --model http://...: a call that waits fetches the rows of the tokens of all its texts at once.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { shortTexts } from './pool/texts.mjs';
import { COLD, begin, folder, newCache, noCurl, withServer } from './remote/program.mjs';
import { ROOT, wisp } from './support.mjs';

/** So many rows of 48 bytes are further apart than ranges that are read as one. */
const APART = 1600;
/** Each has one token of its own. @type {string[]} */
const words = Array.from({ length: 25 * APART }, (_, i) => `w${(i + 26 ** 4).toString(26)}`);
/** So long that a batch has few of them, and in an order in which batches need rows beside those of others. */
const LINES = Array.from({ length: 24 }, (_, i) => `${words[APART * ((i * 7) % 24)]} `.repeat(60)).join('\n'); // prettier-ignore

/** Makes a model with many tokens, of which almost all are cold: in the other small ones one range has all of them. */
function modelOfManyTokens() {
  const made = join(folder, 'many');
  cpSync(`${ROOT}tests/data/models/cls12`, made, { recursive: true });
  /** @type {(name: string, change: (all: any) => void) => void} */
  const edit = (name, change) => {
    const all = JSON.parse(readFileSync(join(made, name), 'utf8'));
    change(all);
    writeFileSync(join(made, name), JSON.stringify(all));
  };
  let before = 0;
  edit('tokenizer.json', ({ model }) => {
    before = Object.keys(model.vocab).length;
    words.forEach((word, i) => (model.vocab[word] = before + i));
  });
  edit('config.json', (config) => (config.vocab_size = before + words.length));
  const weights = readFileSync(join(made, 'model.safetensors'));
  const start = 8 + Number(weights.readBigUInt64LE());
  const tensors = JSON.parse(weights.subarray(8, start).toString());
  const table = tensors['embeddings.word_embeddings.weight'];
  const data = weights.subarray(start);
  const [first, end] = table.data_offsets;
  const more = Buffer.alloc(words.length * 48, data.subarray(first + 5 * 48, end));
  table.shape[0] += words.length;
  for (const name of Object.keys(tensors)) {
    const { data_offsets: offsets } = tensors[name];
    if (offsets && offsets[0] >= end) offsets[0] += more.length;
    if (offsets && offsets[1] >= end) offsets[1] += more.length;
  }
  const header = Buffer.from(JSON.stringify(tensors));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(
    join(made, 'model.safetensors'),
    Buffer.concat([length, header, data.subarray(0, end), more, data.subarray(end)]),
  );
  const [whole, counted, split] = ['whole', 'counted', 'split'].map((name) => `${made}-${name}.gguf`); // prettier-ignore
  for (const [args, input] of /** @type {[string[], string?][]} */ ([
    [['convert', made, whole]],
    [
      ['calibrate', whole, '--data', '-', '--rank', '8', '-o', counted],
      shortTexts(256, 0).join('\n'),
    ],
    [['convert', '--plain', '--hot-tokens', '20', counted, split]],
  ])) {
    const { code, err } = wisp(args, input);
    assert.equal(code, 0, err);
  }
  return split;
}

describe('texts of one call', { skip: noCurl }, () => {
  const path = modelOfManyTokens();
  const coldFrom = JSON.parse(wisp(['inspect', '--format', 'json', path]).out).tensors.find(
    (/** @type {{ name: string }} */ { name }) => name.endsWith('.cold'),
  ).offset;
  for (const threads of ['1', '2']) {
    test(`wait once, with threads: ${threads}`, () =>
      withServer(async (server) => {
        const options = ['--format', 'f32', '-t', threads];
        const { bytes: expected } = wisp(['embed', '-m', path, ...options], LINES);
        // Ranges of one fetch are asked for in rising order. Requests under way at one moment may come in another one,
        // so that an answer is held until they are here.
        let answered = 0;
        let returns = 0;
        let cold = 0;
        server.fault = (response, next, [from]) => {
          if (from < coldFrom) return next();
          cold++;
          if (from < answered) returns++;
          setTimeout(() => {
            answered = Math.max(answered, from);
            next();
          }, 20);
        };
        const { child, ended } = begin(newCache(), ['embed', '-m', server.url, ...COLD, ...options]); // prettier-ignore
        child.stdin.end(LINES);
        const { code, err, rows } = await ended;
        assert.deepEqual([code, err], [0, '']);
        assert.ok(rows.equals(expected), 'other rows came');
        assert.ok(cold > 12, `${cold} requests`);
        // A machine that stalls may let some pass by each other. A call that waits for each batch goes back 13 times.
        assert.ok(returns <= 4, `the call went back ${returns} times, in ${cold} requests`);
      }, readFileSync(path)));
  }
});
