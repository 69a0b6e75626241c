// SPDX-License-Identifier: Apache-2.0
// wisp as the npm package gives it, in Node and in a page alike.

/**
 * @param {any} Embedder the package's
 * @param {string} source of the model
 * @param {number} workers
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function openPackage(Embedder, source, workers) {
  const embedder = await Embedder.load(source, { workers });
  const { build, kernels, compute, features, sharedMemory } = embedder.info();
  return {
    about: { wisp: build, kernels, features, compute, workers, sharedMemory },
    choices: () => [{}],
    embed: (texts) => embedder.embed(texts),
  };
}
