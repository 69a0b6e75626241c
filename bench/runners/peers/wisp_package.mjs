// SPDX-License-Identifier: Apache-2.0
// Runs wisp's npm package, in Node and in a page.

/**
 * @param {any} Embedder the class of the package
 * @param {string} source where the model is
 * @param {number} workers
 * @param {object} [options] further ones of load
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function openPackage(Embedder, source, workers, options) {
  const embedder = await Embedder.load(source, { workers, ...options });
  const { build, kernels, compute, features, sharedMemory, backend } = embedder.info();
  return {
    about: { wisp: build, kernels, features, compute, workers, sharedMemory, backend },
    choices: () => [{}],
    embed: (texts) => embedder.embed(texts),
  };
}
