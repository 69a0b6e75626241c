// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold as a browser imports it: Embedder.load with the option cold.
import { HttpFile } from './cold-http.js';
import { openStore } from './cold-store-browser.js';
import { cacheOf } from './cold-store.js';
import { serveCold } from './cold-worker.js';
import { coldLoader } from './cold.js';
import { resolve } from './files.js';
import { startHelpers } from './helpers-page.js';
import { localLink } from './link-local.js';
import { wrong } from './options.js';
import { platform } from './platform-browser.js';
import { threadsModule } from './threads-browser.js';

export { NEURON } from './cold-layers.js';
export { WispError } from './errors.js';

/** The models that the browser keeps. */
export const cache = cacheOf(
  openStore,
  async () => (await navigator.storage?.persist?.().catch(() => false)) ?? false,
  (source) => resolve(source, 'url').href,
);

platform.cold = coldLoader({
  openFile(source) {
    if ((typeof source !== 'string' && !(source instanceof URL)) || /^hf:/.test(String(source))) {
      throw wrong('cold', 'the source is no URL, of which parts could be fetched');
    }
    return new HttpFile(resolve(source, 'source').href);
  },
  openStore,
  // Outside the page's memory.
  hold: (bytes) => ({ from: new Blob([bytes]), size: bytes.length }),
  own: {
    // Bundlers recognise exactly this expression.
    worker: () =>
      new Worker(new URL('./cold-worker-browser.js', import.meta.url), {
        type: 'module',
        // webpack gives the file this name, too.
        name: 'wisp-cold',
      }),
    local: localLink(serveCold),
  },
  script: 'cold-worker-browser',
  threadsModule,
  watch: startHelpers,
});
