// SPDX-License-Identifier: Apache-2.0
// The pipeline of transformers.js for embeddings, by an Embedder. The entries for Node and browsers add how one is loaded.
import { WispError } from '../base/errors.js';
import { checkOptions, checkString, wrong } from '../base/options.js';
import { Tensor } from './tensor.js';

const TASK = /** @type {const} */ ('feature-extraction');

/** transformers.js' names of what a model of wisp does. @type {Record<string, string[]>} */
const POOLINGS = {
  mean: ['mean'],
  cls: ['cls', 'first_token'],
};

/** Squared lengths of normalised rows differ from 1 only by rounding. */
const UNIT = 1e-3;

/** @param {string} field @param {string} what */
const unsupported = (field, what) => new WispError('unsupported', `${field}: ${what}`, { field });

/**
 * Returns the function `pipeline` of an environment.
 * @param {(source: any, options: any) => Promise<any>} load Embedder.load
 */
export const pipelineOf =
  (load) =>
  /**
   * See types/pipeline.d.ts.
   * @param {string} task
   * @param {any} [model]
   * @param {any} [options]
   */
  async (task, model, options) => {
    if (task !== TASK) throw unsupported('task', `'${task}': wisp has only '${TASK}'`);
    const isEmbedder = typeof model?.embed === 'function';
    if (isEmbedder && options !== undefined) {
      throw wrong('options', 'the embedder is loaded, and takes no more');
    }
    const embedder = isEmbedder ? model : await load(model ?? undefined, options);
    /** @param {string | string[]} texts @param {any} [how] */
    const extract = (texts, how) => extractFrom(embedder, texts, how);
    return Object.assign(extract, { task: TASK, embedder, dispose: () => embedder.close() });
  };

/**
 * @param {any} embedder
 * @param {string | string[]} texts
 * @param {any} [options]
 * @returns {Promise<any>} a Tensor: TypeScript does not see its numbered members
 */
async function extractFrom(embedder, texts, options = {}) {
  checkOptions(options, ['pooling', 'normalize', 'quantize', 'precision', 'prompt', 'dimensions', 'signal']); // prettier-ignore
  const { pooling = 'none', normalize = false, quantize = false, precision = 'binary' } = options;
  const { prompt, dimensions, signal } = options;
  checkString(pooling, 'pooling');
  const own = POOLINGS[embedder.info().pooling] ?? [];
  if (!own.includes(pooling)) {
    const instead = own.map((name) => `'${name}'`).join(' or ');
    throw unsupported('pooling', `'${pooling}': this model pools its tokens by ${instead}`);
  }
  if (!['binary', 'ubinary'].includes(precision)) {
    throw wrong('precision', `'${precision}' is neither 'binary' nor 'ubinary'`);
  }
  const rows = await embedder.embed(texts, { prompt, dimensions, signal });
  const lengths = Array.from(rows, (/** @type {Float32Array} */ row) => squareOf(row));
  if (
    !normalize &&
    dimensions === undefined &&
    lengths.some((length) => Math.abs(length - 1) <= UNIT)
  ) {
    throw unsupported(
      'normalize',
      "false: this model's embeddings are normalised; give { normalize: true }",
    );
  }
  if (normalize) {
    lengths.forEach((length, i) => {
      // Normalised rows keep their bits.
      if (length === 0 || Math.abs(length - 1) <= UNIT) return;
      const row = rows.row(i);
      row.forEach(
        (/** @type {number} */ value, /** @type {number} */ j) =>
          (row[j] = value / Math.sqrt(length)),
      );
    });
  }
  const dims = [rows.count, rows.dimensions];
  const data = new Float32Array(rows.buffer, rows.byteOffset, rows.length);
  return quantize ? bitsOf(data, dims, precision) : new Tensor('float32', data, dims);
}

/** @param {Float32Array} row */
const squareOf = (row) => row.reduce((sum, value) => sum + value * value, 0);

/**
 * Returns a bit for each value, which is set if the value is above zero; the first of eight is the highest.
 * @param {Float32Array} values
 * @param {number[]} dims
 * @param {'binary' | 'ubinary'} precision binary: 128 is taken off each byte
 */
function bitsOf(values, [count, dimensions], precision) {
  if (dimensions % 8 !== 0) {
    throw wrong('quantize', `an embedding has ${dimensions} values, and not a multiple of 8`);
  }
  const bytes = new Uint8Array(values.length / 8);
  values.forEach((value, i) => {
    if (value > 0) bytes[i >> 3] |= 0x80 >> (i & 7);
  });
  const dims = [count, dimensions / 8];
  if (precision === 'ubinary') return new Tensor('uint8', bytes, dims);
  return new Tensor(
    'int8',
    Int8Array.from(bytes, (byte) => byte - 128),
    dims,
  );
}
