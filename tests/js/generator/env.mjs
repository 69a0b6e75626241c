// SPDX-License-Identifier: Apache-2.0
// A case of a generator gets what it needs in an Env.
import { check, inTime } from '../pool/checks.mjs';
import { PROMPT } from './inputs.mjs';

/** @typedef {import('../../../js/generate-node.js').Generator} Generator */
/** @typedef {import('./inputs.mjs').Native} Native */

/**
 * @typedef {object} Env
 * @property {typeof import('../../../js/generate-node.js').Generator} Generator
 * @property {typeof import('../../../js/node.js').Embedder} Embedder
 * @property {string} story what the native program writes after PROMPT
 * @property {string} reply what it replies to MESSAGES
 * @property {Native} native what it writes otherwise
 * @property {any} decoder the source of wisp-stories.gguf
 * @property {any} wide the source of a model whose layers are worth splitting among threads
 * @property {boolean} shared whether workers share memory
 * @property {any} encoder the source of a model that embeds
 * @property {() => any} makeWorker
 * @property {() => any} [makeKiller] makes a worker that ends a helper of its own when it is to write. Node
 *   alone has one: browsers end no helper of a worker that is busy
 * @property {(worker: any) => void} killWorker from outside
 * @property {number | undefined} workers
 */

/** Makes the text go on to the end of the context: no token ends it. */
export const ENDLESS = { logitBias: { 2: -Infinity } };

/**
 * Runs `body` with a generator.
 * @param {Env} env
 * @param {(generator: Generator) => Promise<void>} body
 */
export async function withGenerator(env, body) {
  const generator = await inTime(env.Generator.load(undefined, { workers: env.workers }));
  try {
    await body(generator);
  } finally {
    await inTime(generator.destroy());
  }
}

/** @param {Env} env @param {Generator} generator */
export async function works(env, generator) {
  const text = await inTime(generator.generate(PROMPT).text());
  check(text === env.story, `the generator is not usable: ${text}`);
}

/** @param {() => unknown} body @param {string} field */
export function throwsArgument(body, field) {
  try {
    body();
  } catch (/** @type {any} */ error) {
    check(error.code === 'argument', `${field}: ${error.code} ${error.message}`);
    check(error.field === field, `${error.field} and not ${field}`);
    return;
  }
  throw new Error(`${field}: no error`);
}
