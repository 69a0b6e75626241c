// SPDX-License-Identifier: Apache-2.0
// Helpers of the cases of a pool, in Node and in pages.

/**
 * @typedef {object} Env
 * @property {typeof import('../../../js/node.js').Embedder} Embedder
 * @property {any} model a small one
 * @property {any} calibrated the same, calibrated
 * @property {(query?: string) => any} makeWorker one that does wrong when it is told to
 * @property {(worker: any) => void} killWorker from outside
 * @property {(worker: any) => void} failMessage as if one could not be read
 * @property {string} missingScript address of a script that is not there
 */

/** Longest time in which a promise must be settled. */
const BOUND_MS = 60_000;

/** @param {unknown} condition @param {string} message */
export function check(condition, message) {
  if (!condition) throw new Error(message);
}

/** @param {number} ms */
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * @template T
 * @param {Promise<T>} promise
 * @param {number} [longest] milliseconds
 * @returns {Promise<T>}
 */
export function inTime(promise, longest = BOUND_MS) {
  /** @type {any} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('a promise was not settled')), longest);
  });
  return /** @type {Promise<T>} */ (Promise.race([promise, late])).finally(() =>
    clearTimeout(timer),
  );
}

/**
 * @param {Promise<unknown>} promise
 * @param {string} code
 * @param {RegExp} [message]
 */
export async function rejects(promise, code, message = /./) {
  const error = /** @type {any} */ (
    await inTime(promise).then(
      () => new Error('it was fulfilled'),
      (reason) => reason,
    )
  );
  const name = code === 'cancelled' ? /^(Abort|Timeout)Error$/ : /^WispError$/;
  check(
    name.test(error.name) && error.code === code && message.test(error.message),
    `expected '${code}' ${message}, got ${error.code}: ${error.message}`,
  );
  return error;
}

/**
 * Workers that go wrong, and how many have been started.
 * @param {Env} env
 */
export function factory(env) {
  const made = /** @type {any[]} */ ([]);
  return {
    made,
    /** @type {(n: number) => string} query of the n-th worker's address */
    queryOf: () => '',
    make() {
      const worker = env.makeWorker(this.queryOf(made.length));
      made.push(worker);
      const { postMessage } = worker;
      worker.postMessage = (/** @type {any[]} */ ...of) => {
        if (of[0].type === 'help') made.splice(made.indexOf(worker), 1); // a thread of another one
        postMessage.apply(worker, of);
      };
      return worker;
    },
  };
}

/**
 * Runs `body` with an embedder of workers that go wrong when told to.
 * @param {Env} env
 * @param {any} options
 * @param {(embedder: import('../../../js/node.js').Embedder,
 *   workers: ReturnType<typeof factory>) => Promise<void>} body
 */
export async function withEmbedder(env, options, body) {
  const workers = factory(env);
  const embedder = await inTime(
    env.Embedder.load(env.model, { workers: 1, worker: () => workers.make(), ...options }),
  );
  try {
    await body(embedder, workers);
  } finally {
    await inTime(embedder.destroy());
  }
}

/** @param {import('../../../js/node.js').Embedder} embedder */
export async function works(embedder) {
  const rows = await inTime(embedder.embed(['a', 'b', 'c']));
  check(rows.count === 3 && rows.row(2).some((value) => value !== 0), 'the pool is not usable');
}
