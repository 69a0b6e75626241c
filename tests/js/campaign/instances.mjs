// SPDX-License-Identifier: Apache-2.0

/**
 * Runs `body` while new instances of any module import and export something else.
 * @param {object} change
 * @param {(imports: any) => any} [change.imports] may throw instead of instantiation
 * @param {(exports: any) => any} [change.exports]
 * @param {() => Promise<void>} body
 */
export async function withInstances({ imports = same, exports = same }, body) {
  const { instantiate } = WebAssembly;
  /** @type {any} */ (WebAssembly).instantiate = async (
    /** @type {WebAssembly.Module} */ module,
    /** @type {WebAssembly.Imports} */ given,
  ) => {
    const instance = await instantiate(module, imports(given));
    return { exports: exports({ ...instance.exports }) };
  };
  try {
    await body();
  } finally {
    WebAssembly.instantiate = instantiate;
  }
}

const same = (/** @type {any} */ value) => value;
