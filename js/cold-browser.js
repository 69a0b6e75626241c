// SPDX-License-Identifier: Apache-2.0
// wisp-engine/cold as a browser imports it: Embedder.load with the option cold.
import { wrong } from './base/options.js';
import { resolve } from './files/files.js';
import { startHelpers } from './platform/helpers-page.js';
import { localLink } from './platform/link-local.js';
import { platform } from './platform/platform-browser.js';
import { HttpFile } from './ranges/cold-http.js';
import { openStore } from './ranges/cold-store-browser.js';
import { cacheOf } from './ranges/cold-store.js';
import { serveCold } from './ranges/cold-worker.js';
import { coldLoader } from './ranges/cold.js';
import { threadsModule } from './threads-browser.js';

export { NEURON } from './ranges/cold-layers.js';
export { WispError } from './base/errors.js';

/** The models that the browser keeps. */
export const cache = cacheOf(
  openStore,
  async () => (await navigator.storage?.persist?.().catch(() => false)) ?? false,
  (source) => resolve(source, 'url').href,
);

platform.cold = coldLoader({
  openFile(source) {
    if ((typeof source !== 'string' && !(source instanceof URL)) || /^hf:/.test(String(source))) {
      throw wrong('cold', 'the source is not a URL, of which parts could be fetched');
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
