// SPDX-License-Identifier: Apache-2.0
// Threads that compute one text: workers that share the memory of another worker's module.
import { takeMemory } from '../base/errors.js';
import { sharedMemory, sharedPart } from '../files/source.js';
import { failTeam } from '../platform/team-failure.js';

/** A helper that is not ready after this time is done without. Its script is in the browser's cache. */
const START_MS = 10_000;

/**
 * @typedef {object} Helper
 * @property {Promise<void>} ready it is about to take jobs
 * @property {() => void} stop
 */

/** @typedef {(request: object) => Helper} StartHelper */

/**
 * The imports of a module with shared memory.
 * @param {WebAssembly.Memory} memory
 */
export const sharedImports = (memory) => ({
  env: { memory, emscripten_notify_memory_growth() {}, __do_set_thread_state() {} },
  wasi_snapshot_preview1: { clock_time_get: () => 0 },
});

/** @param {WebAssembly.Module} module whose memory may come from outside */
export const isShared = (module) =>
  WebAssembly.Module.imports(module).some(({ kind }) => kind === 'memory');

/**
 * Starts helpers if the module shares its memory. A job is for the members of the first indices: if
 * a helper does not start, it and those after it are done without, and `missing` says why.
 * @param {WebAssembly.Module} module
 * @param {import('../../types/engine.js').ModelBytes} model
 * @param {number} threads
 * @param {StartHelper | undefined} start
 */
export async function openTeam(module, model, threads, start) {
  if (!isShared(module)) return undefined;
  const memory = takeMemory('shared memory', sharedMemory);
  const started = start
    ? Array.from({ length: threads - 1 }, (_, i) =>
        startOrFail(start, {
          ...{ type: 'help', module, memory, index: i + 1 },
          model: sharedModel(model),
        }),
      )
    : [];
  const late = new Promise((_, reject) => {
    const error = new Error(`not ready after ${START_MS} ms`);
    /** @type {any} */ (setTimeout(reject, START_MS, error)).unref?.();
  });
  late.catch(() => {}); // nobody waits if there are no helpers
  const settled = await Promise.allSettled(started.map(({ ready }) => Promise.race([ready, late])));
  const failed = settled.findIndex(({ status }) => status === 'rejected');
  const helpers = failed < 0 ? started : started.splice(0, failed);
  if (failed >= 0) started.forEach(({ stop }) => stop());
  return {
    imports: sharedImports(memory),
    threads: 1 + helpers.length,
    missing: /** @type {any} */ (settled[failed])?.reason.message,
    stop: () => helpers.forEach(({ stop }) => stop()),
  };
}

/**
 * Returns the bytes of which helpers read what texts need, if they are shared (ModelReader).
 * @param {import('../../types/engine.js').ModelBytes} model
 */
const sharedModel = (model) =>
  model.buffer instanceof SharedArrayBuffer
    ? sharedPart(/** @type {Uint8Array} */ (model))
    : undefined;

/**
 * @param {StartHelper} start throws if this scope cannot make workers
 * @param {object} request
 * @returns {Helper}
 */
function startOrFail(start, request) {
  try {
    return start(request);
  } catch (error) {
    return { ready: Promise.reject(error), stop() {} };
  }
}

/**
 * Adds to what a worker answers the request by which it becomes a helper for the rest of its life.
 * @param {Parameters<import('./worker.js').Serve>[0]} post
 * @param {(request: any) => Promise<void>} receive
 * @returns {(request: any) => Promise<void>}
 */
export const orHelp = (post, receive) => (request) =>
  request.type === 'help'
    ? help(request, (team) => post(/** @type {any} */ ({ team }), [])).catch(report)
    : receive(request);

/**
 * Throws an error of a helper if its page hears of it: that of a promise stays in the worker.
 * @param {unknown} error
 */
const report = (error) =>
  void setTimeout(() => {
    throw error;
  });

/**
 * @param {{ module: WebAssembly.Module, memory: WebAssembly.Memory, index: number,
 *   model?: import('../../types/protocol.js').SharedBytes }} request
 * @param {(team: import('../platform/team-failure.js').Team) => void} ready
 */
async function help({ module, memory, index, model }, ready) {
  /** @param {number} offset @param {number} into @param {number} length */
  const read = (offset, into, length) => {
    try {
      const { buffer, at } = /** @type {import('../../types/protocol.js').SharedBytes} */ (model);
      const bytes = new Uint8Array(buffer, at + offset, length);
      new Uint8Array(memory.buffer, into >>> 0, length).set(bytes);
      return 0;
    } catch {
      return 1;
    }
  };
  const imports = {
    ...sharedImports(memory),
    // Only the engine that is helped reads languages.
    wisp: { seconds: () => performance.now() / 1000, read, languages() {} },
  };
  const { exports } = /** @type {{ exports: any }} */ (
    await WebAssembly.instantiate(module, imports)
  );
  exports.__stack_pointer.value = exports.thread_stack(index);
  const buffer = /** @type {any} */ (memory.buffer);
  const team = { buffer, at: exports.thread_failure() };
  ready(team);
  try {
    exports.thread_run(index);
  } catch (error) {
    failTeam(team);
    throw error;
  }
}
