// SPDX-License-Identifier: Apache-2.0
// Runs wisp's npm package, in Node and in a page.

/**
 * @param {any} Embedder the class of the package
 * @param {string} source where the model is
 * @param {object} options of load
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function openPackage(Embedder, source, options) {
  const embedder = await Embedder.load(source, options);
  const { build, kernels, compute, features, workers, threads, sharedMemory, backend } =
    embedder.info();
  return {
    about: { wisp: build, kernels, features, compute, workers, threads, sharedMemory, backend },
    choices: () => [{}],
    embed: (texts) => embedder.embed(texts),
  };
}
