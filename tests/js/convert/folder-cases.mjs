// SPDX-License-Identifier: Apache-2.0
// Faults of a Hugging Face folder, one each, in tests/data/models/cls12.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** @typedef {{ name: string, change: (folder: string) => void }} FolderCase */

/** @param {string} file @param {(value: any) => any} edit returns another value, or changes it */
const json = (file, edit) => (/** @type {string} */ folder) => {
  const path = join(folder, file);
  const value = JSON.parse(readFileSync(path, 'utf8'));
  writeFileSync(path, JSON.stringify(edit(value) ?? value));
};

/** @param {string} file @param {string | Uint8Array} bytes */
const put = (file, bytes) => (/** @type {string} */ folder) =>
  writeFileSync(join(folder, file), bytes);

/** @param {string} file */
const drop = (file) => (/** @type {string} */ folder) =>
  rmSync(join(folder, file), { recursive: true });

/** @param {number} length */
const cut = (length) => (/** @type {string} */ folder) => {
  const path = join(folder, 'model.safetensors');
  writeFileSync(path, readFileSync(path).subarray(0, length));
};

/** Changes the header of the weights. @param {(header: any) => any} edit */
const header = (edit) => (/** @type {string} */ folder) => {
  const path = join(folder, 'model.safetensors');
  const bytes = readFileSync(path);
  const length = Number(bytes.readBigUInt64LE());
  const value = JSON.parse(bytes.subarray(8, 8 + length).toString());
  const text = Buffer.from(JSON.stringify(edit(value) ?? value));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([size, text, bytes.subarray(8 + length)]));
};

const BIAS = 'embeddings.LayerNorm.bias';

/** @type {FolderCase[]} */
export const folderCases = Object.entries(
  /** @type {Record<string, FolderCase['change']>} */ ({
    'a folder that is good': () => {},
    'no config.json': drop('config.json'),
    'an empty config.json': put('config.json', ''),
    'a config.json that is an array': put('config.json', '[]'),
    'a config.json that ends early': put('config.json', '{"model_type": "be'),
    'a config.json that is not UTF-8': put('config.json', Buffer.from('{"a": "\xff"}', 'latin1')),
    'JSON that is nested too deep': put('config.json', '['.repeat(100_000)),
    'a model of an unknown type': json('config.json', (c) => void (c.model_type = 't5')),
    'no model_type': json('config.json', (c) => void delete c.model_type),
    'a hidden_size of 8.5': json('config.json', (c) => void (c.hidden_size = 8.5)),
    'heads that do not divide': json('config.json', (c) => void (c.num_attention_heads = 7)),
    'another activation': json('config.json', (c) => void (c.hidden_act = 'silu')),
    'quantised weights': json('config.json', (c) => void (c.quantization_config = { quant_method: 'awq' })), // prettier-ignore
    'an adapter': put('adapter_config.json', '{"peft_type": "LORA"}'),
    'no weights': drop('model.safetensors'),
    'weights of PyTorch alone': (folder) => {
      drop('model.safetensors')(folder);
      put('pytorch_model.bin', 'x')(folder);
    },
    'a folder instead of the weights': (folder) => {
      drop('model.safetensors')(folder);
      mkdirSync(join(folder, 'model.safetensors'));
    },
    'empty weights': cut(0),
    'weights of 7 bytes': cut(7),
    'weights that end in the header': cut(100),
    'weights that end early': cut(100_000),
    'a header of 2^63 bytes': put('model.safetensors', Buffer.concat([Buffer.alloc(7), Buffer.from([0x80])])), // prettier-ignore
    'a tensor of an unknown type': header((h) => void (h[BIAS].dtype = 'F8_E5M2')),
    'a tensor outside the file': header((h) => void (h[BIAS].data_offsets = [0, 1e9])),
    'a tensor with a span backwards': header((h) => void h[BIAS].data_offsets.reverse()),
    'a tensor of another shape': header((h) => void (h[BIAS].shape = [23])),
    'a tensor without a shape': header((h) => void delete h[BIAS].shape),
    'a tensor that BERT does not have': header((h) => void ((h.extra = h[BIAS]), delete h[BIAS])),
    'a tensor missing': header((h) => void delete h[BIAS]),
    'an index that names a file elsewhere': (folder) => {
      drop('model.safetensors')(folder);
      put('model.safetensors.index.json', '{"weight_map": {"x": "../x.safetensors"}}')(folder);
    },
    'an index that names a missing file': (folder) => {
      drop('model.safetensors')(folder);
      put('model.safetensors.index.json', '{"weight_map": {"x": "x.safetensors"}}')(folder);
    },
    'no tokenizer': drop('tokenizer.json'),
    'a tokenizer that is not JSON': put('tokenizer.json', '{'),
    'a tokenizer of another model': json('tokenizer.json', (t) => void (t.model.type = 'Unigram')),
    'an empty vocabulary': json('tokenizer.json', (t) => void (t.model.vocab = {})),
    'no unknown token': json('tokenizer.json', (t) => void (t.model.unk_token = 'none')),
    'another normaliser': json('tokenizer.json', (t) => void (t.normalizer = { type: 'Strip' })),
    'modules of an unknown kind': json('modules.json', (m) => void (m[1].type = 'x.Dense')),
    'modules that lead elsewhere': json('modules.json', (m) => void (m[1].path = '../1_Pooling')),
    'no pooling': drop('1_Pooling'),
    'an unknown pooling': json('1_Pooling/config.json', (p) => void (p.pooling_mode = 'median')),
    'a module after that is not a folder': drop('2_Normalize'),
    'max_seq_length of 0': json('sentence_bert_config.json', (s) => void (s.max_seq_length = 0)),
    'prompts that are not texts': json('config_sentence_transformers.json', (s) => void (s.prompts = { a: 1 })), // prettier-ignore
  }),
).map(([name, change]) => ({ name, change }));
