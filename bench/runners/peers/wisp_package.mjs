// SPDX-License-Identifier: Apache-2.0
// Runs wisp's npm package, in Node and in a page.

/**
 * @param {any} Embedder the class of the package
 * @param {string} source where the model is
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
