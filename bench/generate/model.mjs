// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files of decoders with random weights, whose speed is that of the models of their shape:
//   node bench/generate/model.mjs SHAPE TYPE FILE
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {object} Shape
 * @property {'llama' | 'qwen3' | 'lfm2'} architecture
 * @property {number} layers
 * @property {number} hidden
 * @property {number} feedForward
 * @property {number} heads
 * @property {number} keyValueHeads
 * @property {number} headSize
 * @property {number} vocabulary
 * @property {boolean} tied whether the output matrix is the token embedding
 * @property {number[]} [attention] the layers of attention, where the others are short convolutions
 * @property {number} [rank] of random predictors of neurons, whose gates are then of ReLU
 */

/** @type {Record<string, Shape>} */
export const SHAPES = {
  tiny: { architecture: 'qwen3', layers: 2, hidden: 128, feedForward: 256, heads: 4, keyValueHeads: 2, headSize: 32, vocabulary: 600, tied: true }, // prettier-ignore
  'qwen3-0.6b': { architecture: 'qwen3', layers: 28, hidden: 1024, feedForward: 3072, heads: 16, keyValueHeads: 8, headSize: 128, vocabulary: 151936, tied: true }, // prettier-ignore
  'llama-3.2-1b': { architecture: 'llama', layers: 16, hidden: 2048, feedForward: 8192, heads: 32, keyValueHeads: 8, headSize: 64, vocabulary: 128256, tied: true }, // prettier-ignore
  'llama-1.1b-relu': { architecture: 'llama', layers: 16, hidden: 2048, feedForward: 8192, heads: 32, keyValueHeads: 8, headSize: 64, vocabulary: 32000, tied: false, rank: 512 }, // prettier-ignore
  'tinyllama-1.1b': { architecture: 'llama', layers: 22, hidden: 2048, feedForward: 5632, heads: 32, keyValueHeads: 4, headSize: 64, vocabulary: 32000, tied: false }, // prettier-ignore
  'lfm2-350m': { architecture: 'lfm2', layers: 16, hidden: 1024, feedForward: 4608, heads: 16, keyValueHeads: 8, headSize: 64, vocabulary: 65536, tied: true, attention: [2, 5, 8, 10, 12, 14] }, // prettier-ignore
};

/** Room for 128 Ki tokens and some more. */
const CONTEXT = 131072 + 1024;
/** Inputs of a short convolution. */
const TAPS = 3;
/**
 * Shares of neurons, and the logits that they exceed in predictors of random weights, which are normal with a deviation of
 * about 0.79: inputs are normed, and each of the two matrices, of Q4_0, makes them 0.89 times as large.
 * @type {[number, number][]}
 */
const PREDICTED = [
  [0.05, 1.3],
  [0.1, 1.01],
  [0.2, 0.66],
  [0.3, 0.41],
  [0.5, 0],
];
/** The first token that is no control token and no byte. */
const WORDS = 259;

/** Types of GGUF's values, and of ggml's tensors: [number, weights of a block, bytes of a block]. */
const U32 = 4;
const F32_VALUE = 6;
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;
const I32 = 5;
/** @type {Record<string, [number, number, number]>} */
const TYPES = {
  F32: [0, 1, 4],
  F16: [1, 1, 2],
  Q4_0: [2, 32, 18],
  Q4_1: [3, 32, 20],
  Q5_0: [6, 32, 22],
  Q5_1: [7, 32, 24],
  Q8_0: [8, 32, 34],
  Q2_K: [10, 256, 84],
  Q3_K: [11, 256, 110],
  Q4_K: [12, 256, 144],
  Q5_K: [13, 256, 176],
  Q6_K: [14, 256, 210],
  IQ4_NL: [20, 32, 18],
  IQ4_XS: [23, 256, 136],
  MXFP4: [39, 32, 17],
  TQ1_0: [34, 256, 54],
  TQ2_0: [35, 256, 66],
  I2_S: [36, 128, 32],
  Q1_0: [41, 128, 18],
  Q2_0: [42, 64, 18],
  PQ2_0: [142, 128, 34],
};

/** Bytes after the last block of a matrix of I2_S: its scale, and what aligns them. */
const I2_S_END = 32;

/**
 * @param {string} type
 * @param {number} weights of a matrix
 */
function bytesOf(type, weights) {
  const [, block, blockBytes] = TYPES[type];
  return (weights / block) * blockBytes + (type === 'I2_S' ? I2_S_END : 0);
}

/** The values that `type` of writeModel may have: a type, or llama.cpp's mixture of Q4_K and Q6_K. */
export const MODEL_TYPES = [...Object.keys(TYPES), 'Q4_K_M'];

/**
 * The type of a matrix of a model. Q4_K_M has Q6_K for token embeddings, and for the values of attention and the last
 * matrix of feed-forward layers in half of the layers: the first and last eighth, and every third between. Models of I2_S
 * have Q8_0 for token embeddings, which cannot be 0 in I2_S.
 * @param {string} type of the model
 * @param {string} matrix its name
 * @param {number} layer
 * @param {number} layers
 */
function typeOf(type, matrix, layer, layers) {
  const wide = matrix === 'token_embd' || matrix === 'output';
  if (type === 'I2_S') return wide ? 'Q8_0' : type;
  if (type !== 'Q4_K_M') return type;
  const eighth = Math.floor(layers / 8);
  const more =
    layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2;
  return wide || (more && (matrix === 'attn_v' || matrix === 'ffn_down')) ? 'Q6_K' : 'Q4_K';
}

/**
 * Where a block has its scales, and what makes weights of random codes about as large as wanted: the scale, and if a
 * type has one the minimum.
 * @type {Record<string, [number, ...number[]]>}
 */
const SCALES = {
  Q4_0: [0, 1 / 8],
  Q4_1: [0, 1 / 8, -1],
  Q5_0: [0, 1 / 16],
  Q5_1: [0, 1 / 16, -1],
  Q8_0: [0, 1 / 128],
  Q2_K: [80, 1 / 12, 1 / 8],
  Q3_K: [108, 1 / 40],
  Q4_K: [0, 1 / 256, 1 / 32],
  Q5_K: [0, 1 / 512, 1 / 32],
  Q6_K: [208, 1 / 1024],
  IQ4_NL: [0, 1 / 128],
  IQ4_XS: [0, 1 / 2048],
  TQ1_0: [52, 1],
  TQ2_0: [64, 1],
  Q1_0: [0, 1],
  Q2_0: [0, 1],
  PQ2_0: [0, 1],
};

/** Bytes of a file that grow. */
class Bytes {
  /** @type {Buffer[]} */
  parts = [];

  /** @param {number} value */
  u32(value) {
    const part = Buffer.alloc(4);
    part.writeUInt32LE(value);
    this.parts.push(part);
  }

  /** @param {number} value */
  u64(value) {
    const part = Buffer.alloc(8);
    part.writeBigUInt64LE(BigInt(value));
    this.parts.push(part);
  }

  /** @param {number} value */
  f32(value) {
    const part = Buffer.alloc(4);
    part.writeFloatLE(value);
    this.parts.push(part);
  }

  /** @param {string} value */
  text(value) {
    const part = Buffer.from(value);
    this.u64(part.length);
    this.parts.push(part);
  }

  /**
   * @param {string} key
   * @param {number} type
   * @param {any} value
   */
  entry(key, type, value) {
    this.text(key);
    this.u32(type);
    if (type === U32) this.u32(value);
    else if (type === F32_VALUE) this.f32(value);
    else if (type === BOOL) this.parts.push(Buffer.from([value ? 1 : 0]));
    else this.text(value);
  }

  /**
   * @param {string} key
   * @param {number} type
   * @param {any[]} values
   */
  array(key, type, values) {
    this.text(key);
    this.u32(ARRAY);
    this.u32(type);
    this.u64(values.length);
    for (const value of values) {
      if (type === STRING) this.text(value);
      else if (type === F32_VALUE) this.f32(value);
      else this.u32(value);
    }
  }
}

/**
 * Numbers of 32 bits. Those of the generator are mixed, since their low bits recur after few numbers, as rows of a matrix
 * would.
 * @param {number} seed
 */
function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    const mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    return (mixed ^ (mixed >>> 13)) >>> 0;
  };
}

/**
 * Weights of a matrix: floats near 1 / sqrt(columns), so that numbers neither grow nor vanish from layer
 * to layer.
 * @param {string} type
 * @param {number} weights
 * @param {number} columns
 * @param {() => number} next
 * @param {boolean} balanced of Q4_0: their mean is 0, since -8 is left out
 */
function randomMatrix(type, weights, columns, next, balanced) {
  const [, , blockBytes] = TYPES[type];
  const bytes = Buffer.alloc(bytesOf(type, weights));
  const size = 1.7 / Math.sqrt(columns);
  for (let i = 0; i + 4 <= bytes.length; i += 4) bytes.writeUInt32LE(next(), i);
  if (type === 'F32')
    for (let i = 0; i < weights; i++) bytes.writeFloatLE((next() / 2 ** 31 - 1) * size, 4 * i);
  else if (type === 'F16')
    for (let i = 0; i < weights; i++)
      bytes.writeUInt16LE(halfOf((next() / 2 ** 31 - 1) * size), 2 * i);
  else {
    // Four codes a byte, of which 3 stands for no weight and becomes 1, which is 0.
    if (type === 'TQ2_0' || type === 'I2_S' || type === 'Q2_0' || type === 'PQ2_0')
      for (let i = 0; i < bytes.length; i++)
        bytes[i] &= ~((bytes[i] & (bytes[i] >> 1) & 0x55) << 1);
    if (balanced && type === 'Q4_0')
      for (let i = 0; i < bytes.length; i++)
        bytes[i] |= ((bytes[i] & 15) === 0 ? 8 : 0) | (bytes[i] < 16 ? 128 : 0);
    if (type === 'I2_S') bytes.writeFloatLE(size, bytes.length - I2_S_END);
    else if (type === 'MXFP4')
      // A block begins with an exponent: 128 stands for 1, by which numbers of -12 to 12 are multiplied.
      for (let at = 0; at < bytes.length; at += blockBytes)
        bytes[at] = 128 + Math.round(Math.log2(size / 8));
    else {
      const [first, ...scales] = SCALES[type];
      for (let at = 0; at < bytes.length; at += blockBytes)
        scales.forEach((scale, i) => bytes.writeUInt16LE(halfOf(size * scale), at + first + 2 * i));
    }
  }
  return bytes;
}

/** @param {number} value not negative if it is less than a normal half, cut to a half's precision */
function halfOf(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  const exponent = ((bits >>> 23) & 255) - 112;
  if (exponent <= 0) return Math.floor(value * 2 ** 24);
  return ((bits >>> 16) & 0x8000) | (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

/**
 * SentencePiece tokens: <unk>, <s>, </s>, the bytes, letters, and made-up words.
 * @param {number} count
 */
function vocabularyOf(count) {
  const tokens = ['<unk>', '<s>', '</s>'];
  for (let i = 0; i < 256; i++) tokens.push(`<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  tokens.push('▁');
  for (let i = 97; i < 123; i++) tokens.push(String.fromCharCode(i), `▁${String.fromCharCode(i)}`);
  for (let i = 0; tokens.length < count; i++)
    tokens.push(`▁${[...i.toString(26)].map((d) => String.fromCharCode(97 + parseInt(d, 26))).join('')}z`); // prettier-ignore
  return tokens;
}

/**
 * Writes a model. With `zeros`, feed-forward layers are holes in the file, whose weights are 0.
 * @param {string} path
 * @param {Shape} shape
 * @param {string} type of the matrices
 * @param {{ zeros?: boolean }} [options]
 */
export function writeModel(path, shape, type, { zeros = false } = {}) {
  const { architecture: name, layers, hidden, feedForward, heads, keyValueHeads, headSize } = shape;
  const tokens = vocabularyOf(shape.vocabulary);
  const q = heads * headSize;
  const kv = keyValueHeads * headSize;
  const keyValueHeadsOf = Array.from({ length: layers }, (_, l) =>
    !shape.attention || shape.attention.includes(l) ? keyValueHeads : 0,
  );
  const plain = typeOf(type, '', 0, layers);
  /** @type {[string, string, number[]][]} */
  const tensors = [
    ['token_embd.weight', typeOf(type, 'token_embd', 0, layers), [hidden, tokens.length]],
    [name === 'lfm2' ? 'token_embd_norm.weight' : 'output_norm.weight', 'F32', [hidden]],
  ];
  if (!shape.tied)
    tensors.push(['output.weight', typeOf(type, 'output', 0, layers), [hidden, tokens.length]]);
  for (let l = 0; l < layers; l++) {
    tensors.push(
      [`blk.${l}.attn_norm.weight`, 'F32', [hidden]],
      [`blk.${l}.ffn_norm.weight`, 'F32', [hidden]],
      [`blk.${l}.ffn_gate.weight`, plain, [hidden, feedForward]],
      [`blk.${l}.ffn_up.weight`, plain, [hidden, feedForward]],
      [`blk.${l}.ffn_down.weight`, typeOf(type, 'ffn_down', l, layers), [feedForward, hidden]],
    );
    if (shape.rank)
      tensors.push(
        [`blk.${l}.ffn_predictor_p.weight`, plain, [hidden, shape.rank]],
        [`blk.${l}.ffn_predictor_p.bias`, 'F32', [shape.rank]],
        [`blk.${l}.ffn_predictor_q.weight`, plain, [shape.rank, feedForward]],
        [`blk.${l}.ffn_predictor_q.bias`, 'F32', [feedForward]],
        [`blk.${l}.ffn_thresholds`, 'F32', [feedForward, PREDICTED.length]],
      );
    if (keyValueHeadsOf[l] === 0) {
      tensors.push(
        [`blk.${l}.shortconv.in_proj.weight`, plain, [hidden, 3 * hidden]],
        [`blk.${l}.shortconv.conv.weight`, 'F32', [TAPS, hidden]],
        [`blk.${l}.shortconv.out_proj.weight`, plain, [hidden, hidden]],
      );
      continue;
    }
    tensors.push(
      [`blk.${l}.attn_q.weight`, plain, [hidden, q]],
      [`blk.${l}.attn_k.weight`, plain, [hidden, kv]],
      [`blk.${l}.attn_v.weight`, typeOf(type, 'attn_v', l, layers), [hidden, kv]],
      [`blk.${l}.attn_output.weight`, plain, [q, hidden]],
    );
    if (name !== 'llama')
      tensors.push(
        [`blk.${l}.attn_q_norm.weight`, 'F32', [headSize]],
        [`blk.${l}.attn_k_norm.weight`, 'F32', [headSize]],
      );
  }
  const header = new Bytes();
  header.parts.push(Buffer.from('GGUF'));
  header.u32(3);
  header.u64(tensors.length);
  const metadata = new Bytes();
  let entries = 0;
  const entry = (
    /** @type {string} */ key,
    /** @type {number} */ kind,
    /** @type {any} */ value,
  ) => {
    entries++;
    metadata.entry(key, kind, value);
  };
  entry('general.architecture', STRING, name);
  entry('general.name', STRING, `random ${name}`);
  entry(`${name}.context_length`, U32, CONTEXT);
  entry(`${name}.embedding_length`, U32, hidden);
  entry(`${name}.block_count`, U32, layers);
  entry(`${name}.feed_forward_length`, U32, feedForward);
  entry(`${name}.attention.head_count`, U32, heads);
  if (name === 'lfm2') {
    entries++;
    metadata.array('lfm2.attention.head_count_kv', I32, keyValueHeadsOf);
    entry('lfm2.shortconv.l_cache', U32, TAPS);
  } else entry(`${name}.attention.head_count_kv`, U32, keyValueHeads);
  entry(`${name}.attention.key_length`, U32, headSize);
  entry(`${name}.attention.value_length`, U32, headSize);
  entry(`${name}.attention.layer_norm_rms_epsilon`, F32_VALUE, 1e-5);
  entry(`${name}.rope.freq_base`, F32_VALUE, 10000);
  entry(`${name}.rope.dimension_count`, U32, headSize);
  entry(`${name}.vocab_size`, U32, tokens.length);
  if (shape.rank) {
    entry('wisp.hidden_act', STRING, 'relu');
    entry('wisp.sparse.share', F32_VALUE, 0.1);
    entries++;
    metadata.array('wisp.sparse.shares', F32_VALUE, PREDICTED.map(([share]) => share)); // prettier-ignore
  }
  entry('tokenizer.ggml.model', STRING, 'llama');
  entry('tokenizer.ggml.bos_token_id', U32, 1);
  entry('tokenizer.ggml.eos_token_id', U32, 2);
  entry('tokenizer.ggml.unknown_token_id', U32, 0);
  entry('tokenizer.ggml.add_bos_token', BOOL, true);
  metadata.array('tokenizer.ggml.tokens', STRING, tokens);
  metadata.array('tokenizer.ggml.scores', F32_VALUE, tokens.map((_, i) => -i)); // prettier-ignore
  const kindOf = (/** @type {number} */ i) => (i === 0 ? 2 : i < 3 ? 3 : i < WORDS ? 6 : 1);
  metadata.array('tokenizer.ggml.token_type', I32, tokens.map((_, i) => kindOf(i))); // prettier-ignore
  header.u64(entries + 3);
  header.parts.push(Buffer.concat(metadata.parts));
  let offset = 0;
  const places = tensors.map(([tensor, kind, shapeOf]) => {
    const [number] = TYPES[kind];
    const weights = shapeOf.reduce((product, n) => product * n, 1);
    header.text(tensor);
    header.u32(shapeOf.length);
    shapeOf.forEach((n) => header.u64(n));
    header.u32(number);
    header.u64(offset);
    const place = { tensor, kind, weights, columns: shapeOf[0], offset };
    offset = Math.ceil((offset + bytesOf(kind, weights)) / 32) * 32;
    return place;
  });
  const head = Buffer.concat(header.parts);
  const start = Math.ceil(head.length / 32) * 32;
  const file = openSync(path, 'w');
  writeSync(file, head);
  const next = random(1);
  for (const { tensor, kind, weights, columns, offset: at } of places) {
    if (zeros && tensor.includes('ffn_') && kind !== 'F32') continue;
    const bytes = tensor.endsWith('norm.weight')
      ? Buffer.from(new Float32Array(weights).fill(1).buffer)
      : tensor.endsWith('bias')
        ? Buffer.alloc(4 * weights)
        : tensor.endsWith('thresholds')
          ? Buffer.from(Float32Array.from({ length: weights }, (_, i) => PREDICTED[Math.floor(i / columns)][1]).buffer) // prettier-ignore
          : randomMatrix(kind, weights, columns, next, shape.rank !== undefined);
    // Rows of 0 have logits of 0, so that control and byte tokens are never the likeliest.
    if (columns * tokens.length === weights)
      bytes.fill(0, 0, (bytes.length / tokens.length) * WORDS);
    writeSync(file, bytes, 0, bytes.length, start + at);
  }
  ftruncateSync(file, start + offset);
  closeSync(file);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [shape, type, path] = process.argv.slice(2);
  if (!SHAPES[shape] || !MODEL_TYPES.includes(type) || !path) {
    console.error(
      `usage: node bench/generate/model.mjs SHAPE TYPE FILE\nSHAPE: ${Object.keys(SHAPES).join(', ')}\nTYPE: ${MODEL_TYPES.join(', ')}`,
    );
    process.exit(2);
  }
  writeModel(path, SHAPES[shape], type);
  console.log(`${path}: ${readFileSync(path).length} bytes`);
}
