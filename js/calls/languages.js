// SPDX-License-Identifier: Apache-2.0
import { compile } from './load.js';

/**
 * Makes the function that compiles the module of languages, when it is first called. Native engines need none.
 * @param {import('../../types/internal.js').Platform} platform
 * @param {() => URL} own
 * @param {import('../../types/internal.js').Loaded} loaded
 * @returns {() => Promise<WebAssembly.Module | undefined>}
 */
export function languagesOf(platform, own, { plan: { folder, integrity, native } }) {
  /** @type {Promise<WebAssembly.Module> | undefined} */
  let compiling;
  const url = folder && new URL('js/wisp-languages.wasm', folder);
  return async () => {
    if (native.addon) return undefined;
    const { signal } = new AbortController();
    compiling ??= compile(platform, own, { url }, signal, integrity.languages);
    compiling.catch(() => (compiling = undefined)); // the next call tries again
    return compiling;
  };
}
