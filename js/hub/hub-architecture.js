// SPDX-License-Identifier: Apache-2.0
// Refuses a download before its weights come, if no product of wisp computes such a model.
import { WispError } from '../base/errors.js';

/** The values of general.architecture in GGUF files that wisp opens: those of src/products. */
export const ARCHITECTURES = [
  ...'bert nomic-bert mpnet electra deberta-v2 gte static llama qwen2 qwen3'.split(' '),
  ...'gpt2 gemma2 gemma3 lfm2 granite minicpm olmo2 smollm3 phi3'.split(' '),
  ...'starcoder2 modern-bert gemma-embedding gptneox stablelm qwen3moe olmoe granitemoe lfm2moe gpt-oss'.split(
    ' ',
  ),
  ...'mistral3 glm4 eurobert bitnet bitnet-b1.58 deepseek2 jina-bert-v2 jina-bert-v3'.split(' '),
  ...'nomic-bert-moe clip siglip'.split(' '),
];

/** The values of model_type in folders that wisp opens: those of src/huggingface. */
export const MODEL_TYPES = [
  ...'bert roberta xlm-roberta camembert distilbert mpnet nomic_bert modernbert electra'.split(' '),
  ...'new llama mistral qwen2 qwen3 gpt2 gemma2 gemma3_text gemma3'.split(' '),
  ...'lfm2 lfm2_bidirectional phi3 granite olmo2 olmo3 smollm3 mistral3 starcoder2'.split(' '),
  ...'gpt_neox stablelm qwen3_moe olmoe granitemoe lfm2_moe model2vec'.split(' '),
  ...'minicpm ministral3 glm4 eurobert gpt_oss bitnet glm4_moe_lite granitemoehybrid'.split(' '),
  ...'deberta-v2 clip clip_text_model siglip siglip_text_model'.split(' '),
];

const KEY = 'general.architecture';

/** The type of a text among the values of a GGUF file, and the bytes of the values of the types before and after it. */
const TEXT = 8;
const BYTES = [1, 1, 2, 2, 4, 4, 4, 1, NaN, NaN, 8, 8, 8];

/**
 * Reads the architecture in the first bytes of a GGUF file. Returns undefined if an array comes before it, or it is not
 * among these bytes.
 * @param {Uint8Array} bytes
 */
export function architectureOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 24; // behind magic, version, and the numbers of tensors and keys
  const isThere = (/** @type {number} */ length) => at + length <= bytes.length;
  function text() {
    const length = isThere(8) ? view.getUint32(at, true) : NaN;
    at += 8;
    if (!isThere(length)) return undefined;
    at += length;
    return String.fromCharCode(...bytes.subarray(at - length, at).subarray(0, 256));
  }
  for (;;) {
    const key = text();
    if (key === undefined || !isThere(4)) return undefined;
    const type = view.getUint32(at, true);
    at += 4;
    const value = type === TEXT ? text() : undefined;
    if (key === KEY) return value;
    if (type !== TEXT) at += BYTES[type] ?? NaN;
    if (!isThere(0)) return undefined;
  }
}

/**
 * Fails if this is the config.json of a model of a type that wisp does not have.
 * @param {string} text
 * @param {string} url
 */
export function checkConfig(text, url) {
  let type;
  try {
    type = JSON.parse(text).model_type;
  } catch {
    return; // whoever opens the folder says what is wrong
  }
  if (typeof type !== 'string' || MODEL_TYPES.includes(type)) return;
  throw new WispError(
    'unsupported',
    `${url}: models of type ${type} are not supported: its weights were not fetched`,
    { field: 'model_type' },
  );
}

/**
 * Fails if these are the first bytes of a GGUF file whose architecture wisp does not have.
 * @param {Uint8Array} bytes
 * @param {string} url
 */
export function checkArchitecture(bytes, url) {
  if (bytes[0] !== 0x47 || bytes[1] !== 0x47) return; // no GGUF
  const name = architectureOf(bytes);
  if (name === undefined || ARCHITECTURES.includes(name)) return;
  throw new WispError(
    'unsupported',
    `${url}: models of architecture ${name} are not supported: nothing more of it was fetched`,
    { field: KEY },
  );
}
