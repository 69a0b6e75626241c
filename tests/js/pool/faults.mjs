// SPDX-License-Identifier: Apache-2.0
// A worker of the package that fails when it is told to: by the query of its script's address
// while it starts ("?boot=throw"), later by a text ("FAULT exit").
import { serve } from '../../../js/engine/worker.js';

/** A module whose one function, f, executes "unreachable". */
// prettier-ignore
const TRAP = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00,
  0x01, 0x04, 0x01, 0x60, 0x00, 0x00, //        type: () -> ()
  0x03, 0x02, 0x01, 0x00,
  0x07, 0x05, 0x01, 0x01, 0x66, 0x00, 0x00, //  export "f"
  0x0a, 0x05, 0x01, 0x03, 0x00, 0x00, 0x0b, //  unreachable
]);

/** @type {any} the exports of the engine's instance */
let exports;
let trapNext = false;
/** @type {string | undefined} what happens instead of the next change of sparse layers */
let nextChange;

/**
 * @typedef {object} Host what differs between Node and browsers
 * @property {(message: any, transfer?: any) => void} post
 * @property {() => void} exit
 */

/** @param {string} boot */
export async function failAtBoot(boot, /** @type {Host} */ host) {
  if (boot === 'throw') throw new Error('thrown while starting');
  if (boot === 'exit') host.exit();
  if (boot === 'exit' || boot === 'silence') await new Promise(() => {});
}

/**
 * @param {Host} host
 * @param {typeof serve} [serveOthers] answers what is not a fault
 */
export function serveFaults(host, serveOthers = serve) {
  watchInstances();
  const receive = serveOthers(host.post);
  return (/** @type {any} */ request) => {
    if (request.type === 'sparse' && nextChange) return failChange(request, host);
    const texts = request.type === 'embed' ? request.texts : [];
    const text = texts.find((/** @type {string} */ each) => each.startsWith('FAULT'));
    const fault = /^FAULT (\w+) ?(.*)/.exec(text ?? '');
    return fault ? FAULTS[fault[1]]({ request, host, receive, rest: fault[2] }) : receive(request);
  };
}

/**
 * @param {any} request
 * @param {Host} host
 */
function failChange({ id }, host) {
  if (nextChange === 'exit') host.exit();
  const error = { code: 'memory', message: 'out of memory', field: '' };
  if (nextChange === 'refuse') host.post({ id, type: 'failed', error, fatal: false });
  nextChange = undefined;
}

/** Makes engine_embed trap on request, and keeps the exports. */
function watchInstances() {
  const trap = /** @type {() => void} */ (
    new WebAssembly.Instance(new WebAssembly.Module(TRAP)).exports.f
  );
  const { instantiate } = WebAssembly;
  /** @type {any} */ (WebAssembly).instantiate = async (
    /** @type {any} */ module,
    /** @type {any} */ imports,
  ) => {
    const instance = /** @type {any} */ (await instantiate(module, imports));
    exports = {
      ...instance.exports,
      /** @param {any[]} values */
      engine_embed: (...values) => (trapNext ? trap() : instance.exports.engine_embed(...values)),
    };
    return { exports };
  };
}

/** @param {number} ms */
function work(ms) {
  for (const start = performance.now(); performance.now() - start < ms;);
}

/**
 * @type {Record<string, (at: { request: any, host: Host, receive: (request: any) => any,
 *   rest: string }) => any>}
 */
const FAULTS = {
  throw() {
    throw new Error('thrown at work');
  },
  later() {
    setTimeout(() => {
      throw new Error('thrown later');
    }, 10);
  },
  trap({ request, receive }) {
    trapNext = true;
    return receive(request);
  },
  exit({ host }) {
    host.exit();
  },
  /** Answers correctly, then ends. */
  async exitAfter({ request, receive, host }) {
    await receive(request);
    host.exit();
  },
  garbage({ host }) {
    host.post({ id: -1, type: 'done', value: 'garbage' });
  },
  wrongRows({ request, host }) {
    host.post({ id: request.id, type: 'done', value: null, usage: undefined });
  },
  fewRows({ request, host }) {
    host.post({ id: request.id, type: 'done', value: new Float32Array(1), usage: undefined });
  },
  /** All memory that the module can have is taken while the engine runs. */
  async grow({ request, receive }) {
    const blocks = [];
    for (let bytes = 1 << 26; bytes >= 64;) {
      const block = exports.allocate(bytes);
      if (block) blocks.push(block);
      else bytes >>= 4;
    }
    // Free the memory of the request's text: the engine is to fail, not the copy before it.
    exports.release(blocks.pop());
    await receive(request);
    blocks.forEach((block) => exports.release(block));
  },
  heap() {
    const hoard = [];
    for (;;) hoard.push(new Array(1e5).fill(Math.random()));
  },
  slow({ request, receive, rest }) {
    work(Number(rest));
    return receive(request);
  },
  sparse({ request, receive, rest }) {
    nextChange = rest;
    return receive(request);
  },
  forever() {
    for (;;);
  },
};
