// SPDX-License-Identifier: Apache-2.0
// The bundlers, runtimes and compilers that `make compat` installs, and what it does with each.
// docs/compat.md has a row for each of them.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ROOT } from '../js/support.mjs';
import { libraries } from './libraries.mjs';
import { recipes } from './recipes.mjs';

/**
 * @typedef {object} Environment
 * @property {string} what is run
 * @property {string[]} packages from npm; the first is the one whose version is reported
 * @property {Record<string, string>} files of the project
 * @property {string[][]} [steps] commands, each of which must succeed
 * @property {string} [site] the folder that is then served and opened
 * @property {string[]} [server] or the command of a server; PORT stands for a free port
 * @property {string} [path] of the page. Default: /
 * @property {boolean} [isolated] the page is cross-origin isolated
 * @property {boolean} [copied] the package's files are copied to site/wisp/
 * @property {RegExp} [prints] what the last step prints. Pages give a result of their own
 * @property {RegExp} [says] what the page says instead of its rows
 * @property {RegExp} [refused] the message that loading must fail with
 */

/** @param {string} [options] @param {'workers' | 'threads'} [counted] */
const use = (options = '{ workers: 2 }', counted = 'workers') => `
globalThis.result = (async () => {
  const embedder = await Embedder.load(undefined, ${options});
  const rows = await embedder.embed(['a cat', 'a kitten', 'the stock market']);
  const { ${counted} } = embedder.info();
  await embedder.close();
  return \`\${rows.count} rows, \${${counted}} ${counted}\`;
})();
globalThis.result.then(
  (text) => console.log(text),
  (error) => console.log(\`\${error.name} \${error.code}: \${error.message}\`),
);
`;
const ESM = `import { Embedder } from 'wisp-engine';${use()}`;
const CJS = `const { Embedder } = require('wisp-engine');${use()}`;
const COPIED = `import { Embedder } from 'wisp-engine';${use("{ workers: 2, files: '/wisp/' }")}`;

const THREADS = `import { Embedder } from 'wisp-engine';${use('{ workers: 2 }', 'threads')}`;

const WRITE = `import { Generator } from 'wisp-engine/generate';
(async () => {
  const generator = await Generator.load();
  const { text, tokens } = await generator.generate('Once upon a time', { maxTokens: 8 }).result();
  await generator.close();
  return \`\${tokens} tokens:\${text}\`;
})().then(
  (text) => console.log(text),
  (error) => console.log(\`\${error.name} \${error.code}: \${error.message}\`),
);
`;

/** @param {string} script @param {string} [type] */
const html = (script, type = 'module') =>
  `<!doctype html><link rel="icon" href="data:," /><script type="${type}" src="${script}"></script>`;

const RAN = /3 rows, 2 workers/;
const LINE = /Copy the folders js and models of wisp-engine.*files: '\/that\/folder\/'/;

/** @type {Record<string, Environment>} */
export const environments = {};

for (const major of [5, 6, 7, 8]) {
  const files = { 'index.html': html('/main.js'), 'main.js': ESM };
  const packages = [`vite@${major}`];
  environments[`vite${major}-dev`] = {
    what: 'development server, no configuration',
    packages,
    files,
    server: ['npx', 'vite', '--port', 'PORT', '--strictPort', '--host', '127.0.0.1'],
  };
  environments[`vite${major}-build`] = {
    what: 'build, no configuration',
    packages,
    files,
    steps: [['npx', 'vite', 'build']],
    site: 'dist',
  };
}

const WRITING = {
  packages: ['vite@7'],
  files: { 'index.html': html('/main.js'), 'main.js': WRITE },
  says: /^8 tokens:, there was a/,
};
environments['vite7-generate-dev'] = {
  ...WRITING,
  what: 'a generator, development server',
  server: environments['vite7-dev'].server,
};
environments['vite7-generate-build'] = {
  ...WRITING,
  what: 'a generator, build',
  steps: [['npx', 'vite', 'build']],
  site: 'dist',
};

for (const [
  name,
  packages,
  steps,
  script,
] of /** @type {[string, string[], string[][], string][]} */ ([
  ['vite7', ['vite@7'], [['npx', 'vite', 'build']], '/main.js'],
  [
    'webpack',
    ['webpack@5', 'webpack-cli'],
    [['npx', 'webpack', './main.js', '--mode', 'production']],
    '',
  ],
])) {
  environments[`${name}-threads`] = {
    what: 'threads, build for an isolated page',
    packages,
    files: {
      [script ? 'index.html' : 'dist/index.html']: script
        ? html(script)
        : html('/main.js', 'text/javascript'),
      'main.js': THREADS,
    },
    steps,
    site: 'dist',
    isolated: true,
    says: /^3 rows, 2 threads$/,
  };
}

const NEXT = {
  packages: ['next@16', 'react', 'react-dom'],
  files: {
    'app/layout.js':
      'export default function Layout({ children }) { return <html><body>{children}</body></html>; }',
    'app/page.js': `'use client';
import { useEffect } from 'react';
export default function Page() {
  useEffect(() => {
    import('wisp-engine').then(({ Embedder }) => {${use()}});
  }, []);
  return <p>page</p>;
}`,
    'app/api/route.js': `import { Embedder } from 'wisp-engine';
export const dynamic = 'force-dynamic';
export async function GET() {
  ${use().replace('globalThis.result.then', 'return globalThis.result.then').replaceAll('console.log(', 'new Response(')}
}`,
  },
};
for (const [name, steps, command] of /** @type {[string, string[][], string][]} */ ([
  ['build', [['npx', 'next', 'build']], 'start'],
  ['dev', [], 'dev'],
])) {
  const server = ['npx', 'next', command, '--port', 'PORT', '--hostname', '127.0.0.1'];
  environments[`next-${name}`] = {
    ...NEXT,
    what: `page of an app (Turbopack, ${command})`,
    steps,
    server,
  };
  environments[`next-${name}-server`] = {
    ...NEXT,
    what: `route handler of an app (Turbopack, ${command})`,
    steps,
    server,
    path: '/api',
  };
}

environments.webpack = {
  what: 'bundle for pages',
  packages: ['webpack@5', 'webpack-cli'],
  files: { 'index.html': html('/dist/main.js', 'text/javascript'), 'src/index.js': ESM },
  steps: [['npx', 'webpack', '--mode', 'production']],
  site: '.',
};
environments.rspack = {
  what: 'bundle for pages',
  packages: ['@rspack/core', '@rspack/cli'],
  files: {
    'index.html': html('/dist/main.js', 'text/javascript'),
    'src/index.js': ESM,
    'rspack.config.mjs': "export default { mode: 'production', entry: './src/index.js' };",
  },
  steps: [['npx', 'rspack', 'build']],
  site: '.',
};
environments.parcel = {
  what: 'bundle for pages, with the option files',
  packages: ['parcel'],
  files: { 'index.html': html('main.js'), 'main.js': COPIED },
  steps: [['npx', 'parcel', 'build', 'index.html', '--no-cache']],
  site: 'dist',
  copied: true,
};

/** @param {string} format @param {string} [output] */
const esbuild = (format, output = 'site/main.js') => [
  ['npx', 'esbuild', 'main.js', '--bundle', `--format=${format}`, `--outfile=${output}`],
];
environments['esbuild-esm'] = {
  what: 'ES module, with the option files',
  packages: ['esbuild'],
  files: { 'site/index.html': html('/main.js'), 'main.js': COPIED },
  steps: esbuild('esm'),
  site: 'site',
  copied: true,
};
environments['esbuild-bare'] = {
  what: 'ES module without the option: the message',
  packages: ['esbuild'],
  files: { 'site/index.html': html('/main.js'), 'main.js': ESM },
  steps: esbuild('esm'),
  site: 'site',
  refused: LINE,
};
environments['esbuild-iife'] = {
  what: 'IIFE, with the option files',
  packages: ['esbuild'],
  files: { 'site/index.html': html('/main.js', 'text/javascript'), 'main.js': COPIED },
  steps: esbuild('iife'),
  site: 'site',
  copied: true,
};
environments['esbuild-iife-bare'] = {
  what: 'IIFE without the option: the message',
  packages: ['esbuild'],
  files: { 'site/index.html': html('/main.js', 'text/javascript'), 'main.js': ESM },
  steps: esbuild('iife'),
  site: 'site',
  refused: LINE,
};
environments['esbuild-node'] = {
  what: 'bundle for Node, the package external',
  packages: ['esbuild'],
  files: { 'main.js': ESM },
  steps: [
    [
      'npx',
      'esbuild',
      'main.js',
      '--bundle',
      '--platform=node',
      '--packages=external',
      '--format=esm',
      '--outfile=out.mjs',
    ],
    ['node', 'out.mjs'],
  ],
  prints: RAN,
};
environments['esbuild-node-bundled'] = {
  what: 'bundle for Node, the package inside: the message',
  packages: ['esbuild'],
  files: { 'main.js': ESM },
  steps: [
    [
      'npx',
      'esbuild',
      'main.js',
      '--bundle',
      '--platform=node',
      '--format=esm',
      '--outfile=out.mjs',
    ],
    ['node', 'out.mjs'],
  ],
  prints: LINE,
};

/** @param {string} format */
const rollup = (format) => [
  [
    'npx',
    'rollup',
    'main.js',
    '-p',
    '@rollup/plugin-node-resolve={browser:true}',
    '-f',
    format,
    '-o',
    'site/main.js',
  ],
];
for (const format of ['es', 'iife']) {
  environments[`rollup-${format}`] = {
    what: `${format === 'es' ? 'ES module' : 'IIFE'}, with the option files`,
    packages: ['rollup', '@rollup/plugin-node-resolve'],
    files: {
      'site/index.html': html('/main.js', format === 'es' ? 'module' : 'text/javascript'),
      'main.js': COPIED,
    },
    steps: rollup(format),
    site: 'site',
    copied: true,
  };
}

const JEST = `
const value = async (Embedder) => {
  const embedder = await Embedder.load(undefined, { workers: 2 });
  const rows = await embedder.embed(['a cat', 'a kitten', 'the stock market']);
  await embedder.close();
  return rows.count;
};`;
environments['jest-cjs'] = {
  what: 'tests as CommonJS',
  packages: ['jest'],
  files: {
    'a.test.js': `const { Embedder, WispError } = require('wisp-engine');${JEST}
test('embeds', async () => {
  expect(await value(Embedder)).toBe(3);
  await expect(Embedder.load('/nowhere')).rejects.toBeInstanceOf(WispError);
});`,
  },
  steps: [['npx', 'jest', '--silent=false']],
};
environments['jest-esm'] = {
  what: 'tests as ES modules',
  packages: ['jest'],
  files: {
    'a.test.mjs': `import { Embedder } from 'wisp-engine';${JEST}
test('embeds', async () => expect(await value(Embedder)).toBe(3));`,
  },
  steps: [
    [
      'node',
      '--experimental-vm-modules',
      'node_modules/jest/bin/jest.js',
      '--testMatch',
      '**/*.test.mjs',
    ],
  ],
};

const TYPED = `
export type { WispEmbeddingModel } from 'wisp-engine/ai';
export type { WispEmbeddings } from 'wisp-engine/langchain';
export type { FeatureExtractor } from 'wisp-engine/pipeline';
export async function rowsOf(texts: string[], options: LoadOptions = {}): Promise<Float32Array[]> {
  await using embedder: Embedder = await Embedder.load('m.gguf', options);
  const rows: Rows = await embedder.embed(texts, { dimensions: 3 } satisfies EmbedCallOptions);
  return [...rows].map((row: Float32Array) => row);
}
export function codeOf(error: unknown): WispErrorCode | undefined {
  return error instanceof WispError ? error.code : undefined;
}
export const isEmbedder = (value: unknown): value is Embedder => value instanceof Embedder;
export const show = ({ phase, loaded }: LoadProgress, source: ModelSource) => [phase, loaded, source];
// @ts-expect-error there is no such option
void Embedder.load(undefined, { size: 2 });
`;
/** @param {object} options @param {string[]} files */
const tsconfig = (options, files) =>
  JSON.stringify({
    compilerOptions: {
      ...{ strict: true, noEmit: true, target: 'es2022', lib: ['es2022'], types: [] },
      ...{ exactOptionalPropertyTypes: true, ...options },
    },
    files,
  });
const NAMES =
  'Embedder, Rows, WispError, type EmbedCallOptions, type LoadOptions, type LoadProgress, type ModelSource, type WispErrorCode';
for (const version of ['5.2', '5.9']) {
  environments[`typescript-${version}`] = {
    what: 'CommonJS, ES modules, bundler resolution; without lib.dom and @types/node',
    packages: [`typescript@${version}`],
    files: {
      'a.cts': `import { ${NAMES} } from 'wisp-engine';${TYPED}`,
      'a.mts': `import { ${NAMES} } from 'wisp-engine';
import 'wisp-engine/worker';
import { Engine } from 'wisp-engine/engine';
export const open: typeof Engine.open = Engine.open;${TYPED}`,
      'nodenext.json': tsconfig({ module: 'nodenext' }, ['a.cts', 'a.mts']),
      'bundler.json': tsconfig({ module: 'esnext', moduleResolution: 'bundler' }, ['a.mts']),
      'dom.json': tsconfig({ module: 'nodenext', lib: ['es2022', 'dom'] }, ['a.cts', 'a.mts']),
    },
    steps: [
      ['npx', 'tsc', '--project', 'nodenext.json'],
      ['npx', 'tsc', '--project', 'bundler.json'],
      ['npx', 'tsc', '--project', 'dom.json'],
    ],
  };
}

for (const [name, command] of /** @type {[string, string[]][]} */ ([
  ['node', ['node']],
  ['node22', ['TOOLS/node22']],
  ['node24', ['TOOLS/node24']],
])) {
  environments[name] = {
    what: 'import and require',
    packages: [],
    files: { 'main.mjs': ESM, 'main.cjs': CJS },
    steps: [
      [...command, '--version'],
      [...command, 'main.mjs'],
      [...command, 'main.cjs'],
    ],
    prints: RAN,
  };
}
environments.deno = {
  what: 'deno run, node_modules',
  packages: ['deno'],
  files: { 'main.mjs': ESM },
  steps: [['npx', 'deno', 'run', '-A', '--no-prompt', 'main.mjs']],
  prints: RAN,
};
environments.bun = {
  what: 'bun run',
  packages: ['bun'],
  files: { 'main.mjs': ESM },
  steps: [['npx', 'bun', 'run', 'main.mjs']],
  prints: RAN,
};

// JavaScriptCore computes relaxed instructions otherwise than V8 does.
const GOLDEN = { texts: 12, dimensions: 384 };
const golden = readFileSync(`${ROOT}tests/data/golden-portable.f32`);
const goldenRows = golden.subarray(0, GOLDEN.texts * GOLDEN.dimensions * 4);
const goldenTexts = String(readFileSync(`${ROOT}tests/data/golden-default.jsonl`))
  .split('\n')
  .slice(0, GOLDEN.texts)
  .map((line) => JSON.parse(line).text);
environments['bun-portable'] = {
  what: 'the bits of the option portable, by both modules',
  packages: ['bun'],
  files: {
    'main.mjs': `import { createHash } from 'node:crypto';
import { Embedder } from 'wisp-engine';
const texts = ${JSON.stringify(goldenTexts)};
const same = [];
for (const build of ['simd128', 'relaxed']) {
  const wasm = import.meta.resolve('wisp-engine/wisp-' + build + '.wasm');
  const embedder = await Embedder.load(undefined, { wasm, portable: true, workers: 1 });
  const rows = await embedder.embed(texts);
  await embedder.close();
  const bytes = new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength);
  const hash = createHash('sha256').update(bytes).digest('hex');
  same.push(build + (hash === '${createHash('sha256').update(goldenRows).digest('hex')}' ? ': same bits' : ': other bits'));
}
console.log(same.join(', '));`,
  },
  steps: [['npx', 'bun', 'run', 'main.mjs']],
  prints: /^simd128: same bits, relaxed: same bits$/m,
};
Object.assign(environments, libraries, recipes);
