// SPDX-License-Identifier: Apache-2.0
// Models of pages: see LentModel in types/protocol.d.ts.
import { WispError } from '../base/errors.js';
import { ownBytes, readWhole, request, stateOf } from './source.js';

/**
 * Opens an engine. Returns it, and the bytes that were lent.
 * @param {{ open: Function }} Engine
 * @param {Omit<import('../../types/protocol.js').OpenRequest, 'id' | 'type'>} request
 * @returns {Promise<{ engine: any, bytes?: ArrayBuffer | undefined }>}
 */
export async function openModel(Engine, { module, model, options }) {
  if (!('from' in model)) {
    const { buffer, at, size } = model;
    return { engine: await Engine.open(module, new Uint8Array(buffer, at, size), options) };
  }
  const { bytes, size } = model;
  const whole = bytes ? new Uint8Array(bytes, 0, size) : await readAgain(model);
  const engine = await Engine.open(module, whole, options);
  if (!bytes) release({ bytes: whole.buffer });
  return { engine, bytes };
}

/**
 * Releases the bytes now.
 * @param {any} model
 */
export function release(model) {
  const { bytes } = model;
  delete model.bytes; // workers that open it from now on wait for nobody
  if (bytes) releaseAll([bytes]);
}

/**
 * Releases buffers now: in Chromium transfer(0) does not. Firefox (InternalError) copies what goes to
 * ports, and Cloudflare's Workers (WebSocketPair) send no buffers by them.
 * @param {any[]} buffers
 */
export function releaseAll(buffers) {
  if ('InternalError' in globalThis || 'WebSocketPair' in globalThis)
    return buffers.forEach((each) => each.transfer?.(0));
  const { port1, port2 } = new MessageChannel();
  port2.close();
  port1.postMessage(0, buffers);
  port1.close();
}

/** @param {import('../../types/protocol.js').LentModel} model */
async function readAgain({ from, size }) {
  const { signal } = new AbortController();
  const reading = { signal, progress() {} };
  if (from instanceof Blob) return readWhole(from.stream(), size, 'the model', reading, ownBytes);
  const { url, state, integrity } = from;
  const response = await request(url, signal, 'force-cache');
  if (stateOf(url, response) !== state)
    throw new WispError('io', `${url} has changed since the model was loaded`);
  return readWhole(response.body, size, url, { ...reading, integrity }, ownBytes);
}
