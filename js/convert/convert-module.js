// SPDX-License-Identifier: Apache-2.0
// One conversion in one instance of wisp-convert.wasm, to its end on the calling thread.
import { STATUS_CODES, WispError, isEngineLimit, outOfMemory } from '../base/errors.js';
import { reasonOf } from '../base/system-error.js';

/** @typedef {import('../../types/exports.js').ConvertExports} ConvertExports */

/** Results of the module's imports instead of a file or 0: see wasm/convert/files.c. */
const MISSING = -1;
const CHANGED = -2;
const FAILED = -3;
const NOT_REGULAR = -4;

/** What cannot be opened because it is not a file, such as a folder or a device. */
export class NotRegularError extends Error {}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * @param {import('../../types/internal.js').ConvertFiles} files
 * @param {import('../../types/internal.js').ConvertOutput} output
 * @param {import('../../types/internal.js').ConvertTask} task
 * @param {(done: number, total: number) => void} onProgress
 */
export async function convertBy(files, output, { module, input, name, options }, onProgress) {
  /** @type {ConvertExports} */
  let wasm;
  /** @type {any} what a function of the files threw */
  let failure;
  const bytes = (/** @type {number} */ at, /** @type {number} */ length) =>
    new Uint8Array(wasm.memory.buffer, at >>> 0, length);

  /** @param {number} at */
  function string(at) {
    const all = new Uint8Array(wasm.memory.buffer);
    return decoder.decode(all.slice(at >>> 0, all.indexOf(0, at >>> 0)));
  }

  /** @param {string | undefined} text @returns {number} the address of a copy that ends in 0, or 0 */
  function put(text) {
    if (text === undefined) return 0;
    const encoded = encoder.encode(`${text}\0`);
    const at = wasm.allocate(encoded.length);
    if (!at) throw outOfMemory('the module cannot grow');
    bytes(at, encoded.length).set(encoded);
    return at;
  }

  /** @param {() => number} work returns a number of wasm/convert/files.c */
  function orFailed(work) {
    try {
      return work();
    } catch (error) {
      failure = error;
      return error instanceof NotRegularError ? NOT_REGULAR : FAILED;
    }
  }

  const imports = {
    kind: (/** @type {number} */ path) => files.kind(string(path)),
    /** @param {number} path @param {number} size receives a double */
    open: (path, size) =>
      orFailed(() => {
        const opened = files.open(string(path));
        if (!opened) return MISSING;
        new DataView(wasm.memory.buffer).setFloat64(size >>> 0, opened.size, true);
        return opened.file;
      }),
    /** @param {number} file @param {number} offset @param {number} at @param {number} length */
    read: (file, offset, at, length) =>
      orFailed(() => (files.read(file, offset, bytes(at, length)) ? 0 : CHANGED)),
    close: (/** @type {number} */ file) => files.close(file),
    /** @param {number} at @param {number} length */
    write: (at, length) => orFailed(() => (output.write(bytes(at, length)), 0)),
    /** @param {number} offset @param {number} at @param {number} length */
    write_again: (offset, at, length) =>
      orFailed(() => (output.writeAgain(offset, bytes(at, length)), 0)),
    /** @param {number} at @param {number} capacity */
    reason(at, capacity) {
      const text = bytes(at, capacity)
        .fill(0)
        .subarray(0, capacity - 1);
      text.set(encoder.encode(reasonOf(failure)).subarray(0, text.length));
    },
    progress: onProgress,
  };
  try {
    const instance = await WebAssembly.instantiate(module, {
      wisp: imports,
      env: { emscripten_notify_memory_growth() {} },
    });
    wasm = /** @type {any} */ (instance.exports);
    wasm._initialize();
    const { type, embeddingType, plain, neurons } = options;
    const { hot = 0, hotBytes = 0, hotTokens = 0, sparsity = 0 } = options;
    const texts = [input, name, type, embeddingType, options.name].map(put);
    const status = /** @type {any} */ (wasm).convert(
      ...texts,
      plain === true,
      neurons === true,
      hot,
      hotBytes,
      hotTokens,
      sparsity,
    );
    if (status === 0) return;
    const field = string(wasm.error_field());
    const code = /** @type {import('../base/errors.js').WispErrorCode} */ (STATUS_CODES[status]);
    throw new WispError(code, string(wasm.error_message()), { field, cause: failure });
  } catch (cause) {
    if (isEngineLimit(cause)) throw outOfMemory('an instance of the module', cause);
    if (!(cause instanceof WebAssembly.RuntimeError)) throw cause;
    throw new WispError('trap', `the WebAssembly instance failed: ${cause.message}`, { cause });
  }
}
