// SPDX-License-Identifier: Apache-2.0
// Where the cold part of a model's file begins: the engine itself says so, on the calling thread.
import { STATUS_CODES, WispError } from '../base/errors.js';
import { isShared, sharedImports } from '../engine/threads.js';

/** Pages of 64 KB that a module with shared memory may have to read a header. */
const SHARED_PAGES = { initial: 64, maximum: 4096, shared: true };

/**
 * Returns how many bytes of a file the model opens from; 0 if its header does not end within `bytes`.
 * @param {WebAssembly.Module} module
 * @param {Uint8Array} bytes its beginning
 * @param {{ size: number, name: string }} file
 */
export async function findHot(module, bytes, { size, name }) {
  const end = bytes.length;
  const shared = isShared(module) ? new WebAssembly.Memory(SHARED_PAGES) : undefined;
  const instance = await WebAssembly.instantiate(module, {
    ...(shared ? sharedImports(shared) : { env: { emscripten_notify_memory_growth() {} } }),
    wisp: {
      seconds: () => 0,
      read(/** @type {number} */ offset, /** @type {number} */ into, /** @type {number} */ length) {
        new Uint8Array(memory.buffer, into >>> 0, length).set(
          bytes.subarray(offset, offset + length),
        );
        return 0;
      },
    },
  });
  const wasm = /** @type {import('../../types/exports.js').Exports} */ (
    /** @type {unknown} */ (instance.exports)
  );
  const memory = shared ?? wasm.memory;
  wasm._initialize();
  const engine = wasm.engine_new();
  const found = engine && wasm.engine_hot_bytes(engine, size, end);
  if (found > 0) return found;
  const all = new Uint8Array(memory.buffer);
  const text = (/** @type {number} */ at) =>
    new TextDecoder().decode(all.slice(at >>> 0, all.indexOf(0, at >>> 0)));
  const code = engine ? STATUS_CODES[wasm.engine_error_status(engine)] : 'memory';
  if (code === 'io' && end < size) return 0;
  throw new WispError(
    /** @type {any} */ (code),
    `${name}: ${engine ? text(wasm.engine_error_message(engine)) : 'the module cannot grow'}`,
    { field: engine ? text(wasm.engine_error_field(engine)) : '' },
  );
}
