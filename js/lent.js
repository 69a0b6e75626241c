// SPDX-License-Identifier: Apache-2.0
// Models of pages: see LentModel in types/protocol.d.ts.
import { WispError } from './errors.js';
import { readWhole, request, sharedBytes, stateOf } from './source.js';

/**
 * Opens an engine. Returns what the next worker opens its own from.
 * @param {{ open: Function }} Engine
 * @param {Omit<import('../types/protocol.js').OpenRequest, 'id' | 'type'>} request
 * @returns {Promise<{ engine: any, lent?: import('../types/protocol.js').Lent }>}
 */
export async function openModel(Engine, { module, model, options }) {
  if (!('from' in model)) {
    const { buffer, at, size } = model;
    return { engine: await Engine.open(module, new Uint8Array(buffer, at, size), options) };
  }
  const { bytes, shares, rest } = model;
  const whole = bytes ? new Uint8Array(bytes) : await readAgain(model);
  const reader = shares ? restReader(whole, rest) : undefined;
  const engine = await Engine.open(module, reader ?? whole, options);
  const lent = { bytes, rest: reader?.end() };
  if (!bytes) release({ bytes: whole.buffer });
  return { engine, lent };
}

/**
 * Releases the bytes now, and not when garbage is collected. In Chromium transfer(0) does not.
 * @param {any} model
 */
export function release(model) {
  if (!model.bytes) return;
  const { port1, port2 } = new MessageChannel();
  port2.close();
  port1.postMessage(0, [model.bytes]);
  port1.close();
  model.bytes = undefined;
}

/** @param {import('../types/protocol.js').LentModel} model */
async function readAgain({ from, size }) {
  const { signal } = new AbortController();
  const reading = { signal, progress() {} };
  if (from instanceof Blob) return readWhole(from.stream(), size, 'the model', reading);
  const { url, state, integrity } = from;
  const response = await request(url, signal, 'force-cache');
  if (stateOf(url, response) !== state)
    throw new WispError('io', `${url} has changed since the model was loaded`);
  return readWhole(response.body, size, url, { ...reading, integrity });
}

/**
 * @param {Uint8Array} whole
 * @param {SharedArrayBuffer} [shared] as another worker has left it
 */
function restReader(whole, shared) {
  /** @type {[start: number, end: number][]} */
  const read = [];
  let bytes = whole;
  return {
    size: whole.length,
    lasting: true,
    /** @param {number} offset @param {Uint8Array} into */
    read(offset, into) {
      const end = offset + into.length;
      if (bytes === whole) read.push([offset, end]);
      into.set(bytes.subarray(offset, end));
    },
    end() {
      const { length } = whole;
      bytes = shared ? new Uint8Array(shared) : sharedBytes(length);
      let done = shared ? length : 0;
      for (const [start, end] of [...read.sort((a, b) => a[0] - b[0]), [length, length]]) {
        if (start > done) bytes.set(whole.subarray(done, start), done);
        done = Math.max(done, end);
      }
      return /** @type {SharedArrayBuffer} */ (bytes.buffer);
    },
  };
}
