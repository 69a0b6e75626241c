// SPDX-License-Identifier: Apache-2.0
// The projects of docs/frameworks.md, with its files, in the frameworks themselves.
import { readFileSync } from 'node:fs';
import { blocksOf, fileOf } from '../js/guide/blocks.mjs';
import { ROOT } from '../js/support.mjs';

const blocks = blocksOf(readFileSync(`${ROOT}docs/frameworks.md`, 'utf8'));

/** @param {string} section @returns {Record<string, string>} its files */
const filesOf = (section) =>
  Object.fromEntries(
    blocks.flatMap((block) => {
      const name = block.section === section ? fileOf(block) : undefined;
      return name ? [[name, block.code]] : [];
    }),
  );

/** Asks a question in the page, and prints the answer that it shows. */
const ASK = `
const until = async (find) => {
  for (;;) {
    const found = find();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};
const input = await until(() => document.querySelector('input'));
Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, 'what should I cook?');
input.dispatchEvent(new Event('input', { bubbles: true }));
console.log('rows: ' + (await until(() => document.querySelector('p')?.textContent)));
`;

/**
 * @param {string} script what begins the page
 * @param {string} name what the configuration imports
 * @param {string} plugin from here
 * @param {string} call of it
 * @returns {Record<string, string>} the files that Vite's template has
 */
const viteFiles = (script, name, plugin, call) => ({
  'index.html': `<!doctype html><link rel="icon" href="data:," /><div id="root"></div>
<script type="module" src="/${script}"></script><script type="module">${ASK}</script>`,
  'vite.config.mjs': `import ${name} from '${plugin}';\nexport default { plugins: [${call}] };`,
});

const PAGE = {
  steps: [['npx', 'vite', 'build']],
  site: 'dist',
  says: /^rows: Grandmother makes leek soup\.$/,
};

/** @type {Record<string, import('./environments.mjs').Environment>} */
export const recipes = {
  react: {
    ...PAGE,
    what: 'the component of docs/frameworks.md, built by Vite',
    packages: ['react@19', 'react-dom@19', 'vite@7', '@vitejs/plugin-react@5'],
    files: {
      ...viteFiles('src/main.jsx', 'react', '@vitejs/plugin-react', 'react()'),
      ...filesOf('React'),
      'src/main.jsx': `import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import App from './App.jsx';
createRoot(document.getElementById('root')).render(<StrictMode><App /></StrictMode>);`,
    },
  },
  svelte: {
    ...PAGE,
    what: 'the component of docs/frameworks.md, built by Vite',
    packages: ['svelte@5', 'vite@7', '@sveltejs/vite-plugin-svelte@6'],
    files: {
      ...viteFiles('src/main.js', '{ svelte }', '@sveltejs/vite-plugin-svelte', 'svelte()'),
      ...filesOf('Svelte'),
      'src/main.js': `import { mount } from 'svelte';
import App from './App.svelte';
mount(App, { target: document.getElementById('root') });`,
    },
  },
  worker: {
    what: 'the Worker of docs/frameworks.md, in workerd',
    packages: ['miniflare@4', 'esbuild'],
    files: {
      ...filesOf('A Cloudflare Worker'),
      // As wrangler does: bundle scripts, and leave modules of WebAssembly as they are.
      'run.mjs': `import { readFileSync } from 'node:fs';
import { buildSync } from 'esbuild';
import { Miniflare } from 'miniflare';
buildSync({ entryPoints: ['worker.js'], outfile: 'out.mjs', bundle: true, format: 'esm', conditions: ['worker', 'browser'], external: ['*.wasm'] });
const wasm = './node_modules/wisp-engine/js/wisp-simd128.wasm';
const worker = new Miniflare({
  compatibilityDate: '2026-01-01',
  modules: [{ type: 'ESModule', path: 'out.mjs' }, { type: 'CompiledWasm', path: wasm }],
  serviceBindings: { ASSETS: () => new Response(readFileSync('node_modules/wisp-engine/models/wisp-default.gguf')) },
});
const ask = async (body) => (await worker.dispatchFetch('http://worker/', { method: 'POST', body })).json();
const [a, b, c] = [await ask('a cat'), await ask('a kitten'), await ask('taxes')];
const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
console.log(a.length + ' values, ' + (dot(a, b) > dot(a, c) ? 'a cat is like a kitten' : 'not alike'));
await worker.dispose();`,
    },
    steps: [['node', 'run.mjs']],
    prints: /^384 values, a cat is like a kitten$/m,
  },
};
