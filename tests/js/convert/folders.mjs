// SPDX-License-Identifier: Apache-2.0
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns the files of a model's folder by their paths in it.
 * @param {string} folder
 * @returns {Record<string, Buffer<ArrayBuffer>>}
 */
export function filesOf(folder) {
  const names = readdirSync(folder, { recursive: true }).map(String);
  const files = names.filter((name) => statSync(join(folder, name)).isFile());
  return Object.fromEntries(
    files.map((name) => [
      name.replaceAll('\\', '/'),
      Buffer.from(new Uint8Array(readFileSync(join(folder, name)))),
    ]),
  );
}

/** A repeatable random number from -1 to 1. @param {number} i */
const random = (i) => (Math.imul(i + 1, 0x9e3779b1) >>> 8) / 2 ** 23 - 1;

/**
 * Makes the files of a tiny Llama with a byte-level tokenizer.
 * @param {Record<string, unknown>} [more] settings of config.json
 * @returns {Record<string, Buffer<ArrayBuffer>>}
 */
export function tinyLlama(more) {
  const size = 32;
  const inner = 64;
  const layer = 'model.layers.0.';
  const shapes = {
    'model.embed_tokens.weight': [260, size],
    'model.norm.weight': [size],
    [`${layer}input_layernorm.weight`]: [size],
    ...Object.fromEntries(
      ['q', 'k', 'v', 'o'].map((name) => [`${layer}self_attn.${name}_proj.weight`, [size, size]]),
    ),
    [`${layer}post_attention_layernorm.weight`]: [size],
    [`${layer}mlp.gate_proj.weight`]: [inner, size],
    [`${layer}mlp.up_proj.weight`]: [inner, size],
    [`${layer}mlp.down_proj.weight`]: [size, inner],
  };
  let at = 0;
  const header = Object.entries(shapes).map(([name, shape]) => {
    const start = at;
    at += 4 * shape.reduce((product, n) => product * n, 1);
    return [name, { dtype: 'F32', shape, data_offsets: [start, at] }];
  });
  const text = Buffer.from(JSON.stringify(Object.fromEntries(header)));
  const weights = Buffer.alloc(8 + text.length + at);
  weights.writeBigUInt64LE(BigInt(text.length));
  text.copy(weights, 8);
  for (let i = 0; i < at / 4; i++) weights.writeFloatLE(random(i), 8 + text.length + 4 * i);

  // GPT-2's characters for bytes: printable ones stand for themselves, the others come from 256 on.
  const isPlain = (/** @type {number} */ byte) =>
    (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  const letters = Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode(isPlain(byte) ? byte : next++),
  );
  const tokens = [...letters, 'he', 'll', 'hell', '<end>'];
  const json = {
    'config.json': {
      model_type: 'llama',
      architectures: ['LlamaForCausalLM'],
      hidden_size: size,
      intermediate_size: inner,
      num_hidden_layers: 1,
      num_attention_heads: 4,
      num_key_value_heads: 4,
      hidden_act: 'silu',
      max_position_embeddings: 64,
      rms_norm_eps: 1e-5,
      rope_theta: 10000,
      tie_word_embeddings: true,
      attention_bias: false,
      mlp_bias: false,
      vocab_size: tokens.length,
      eos_token_id: 259,
      ...more,
    },
    'tokenizer_config.json': {
      tokenizer_class: 'GPT2Tokenizer',
      add_prefix_space: false,
      eos_token: '<end>',
      unk_token: '<end>',
    },
    'vocab.json': Object.fromEntries(tokens.map((token, id) => [token, id])),
  };
  return {
    ...Object.fromEntries(
      Object.entries(json).map(([name, value]) => [name, Buffer.from(JSON.stringify(value))]),
    ),
    'merges.txt': Buffer.from('#version: 0.2\nh e\nl l\nhe ll\n'),
    'model.safetensors': weights,
  };
}
