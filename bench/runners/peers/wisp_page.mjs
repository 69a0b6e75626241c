// SPDX-License-Identifier: Apache-2.0
// wisp in a page: each engine in a module worker, so none of it needs an isolated page.
import { pickBuild } from '../../../js/builds.js';
import { askerOf } from './ask.mjs';
import { openShards } from './wisp_shards.mjs';

/**
 * @param {{ model: string, threads: number, dtype: string }} options
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function open({ model: url, threads, dtype }) {
  const asks = Array.from({ length: threads }, () =>
    askerOf(new Worker(new URL('./wisp_worker.mjs', import.meta.url), { type: 'module' })),
  );
  const [module, bytes] = await Promise.all([
    WebAssembly.compileStreaming(fetch(`/js/wisp-${pickBuild()}.wasm`)),
    fetch(url).then((response) => response.arrayBuffer()),
  ]);
  const compute = dtype === 'f32' ? 'f32' : 'auto';
  return openShards(asks, { module, model: new Uint8Array(bytes), compute });
}
