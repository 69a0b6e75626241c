// SPDX-License-Identifier: Apache-2.0
// wisp in Node: one engine where it is called, or several in worker threads.
import { Worker } from 'node:worker_threads';
import { pickBuild } from '../../../js/builds.js';
import { Engine } from '../../../js/engine.js';
import { compileBuild, readBytes } from '../../../js/platform-node.js';
import { askerOf } from './ask.mjs';
import { openShards } from './wisp_shards.mjs';

/**
 * @param {{ model: string, threads: number, dtype: string }} options
 * @returns {Promise<import('../measure.mjs').Peer>}
 */
export async function open({ model: path, threads, dtype }) {
  const build = pickBuild();
  const module = await compileBuild(build);
  const model = await readBytes(path);
  const compute = dtype === 'f32' ? 'f32' : 'auto';
  if (threads > 1) {
    const url = new URL('./wisp_worker.mjs', import.meta.url);
    const asks = Array.from({ length: threads }, () => askerOf(new Worker(url)));
    return openShards(asks, { module, model, compute });
  }
  const engine = await Engine.open(module, model, { compute });
  const info = engine.info();
  return {
    about: { wisp: info.build, kernels: info.kernels, compute: info.compute, instances: 1 },
    choices: () => [{}],
    embed: (texts) => engine.embed(texts),
  };
}
