// SPDX-License-Identifier: Apache-2.0
// A first visit over a slow line, in a browser with a new profile each time: wisp beside transformers.js, in turn.
//   node bench/cold/visit.mjs [--megabits 10] [--round-trip 40] [--rounds 5] [--browser chromium]
//     [--only NAME,...] [--json FILE]
// bench/README.md says what it needs.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { launch } from '../runners/browsers.mjs';
import { FOLDER, HOT_SHARES, checkRow, cosine, modelOf, nativeRows, textsOf } from './models.mjs';
import { publish, startNginx } from './nginx.mjs';
import { throttle } from './throttle.mjs';
import { median } from '../median.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PACKAGES = `${ROOT}bench/node_modules`;
const { values } = parseArgs({
  options: {
    megabits: { type: 'string', default: '10' },
    'round-trip': { type: 'string', default: '40' },
    rounds: { type: 'string', default: '5' },
    browser: { type: 'string', default: 'chromium' },
    only: { type: 'string' },
    onnx: { type: 'string', default: `${ROOT}build/bench/onnx` },
    json: { type: 'string' },
  },
});

/** @typedef {{ name: string, peer: 'wisp' | 'transformers', model: string, cold?: any }} Contestant */

/** @param {string} kind @param {number} [hot] @param {any} [cold] */
const byRange = (kind, hot, cold = { mode: 'wait' }) => ({
  name: `wisp ${kind}, ${hot === undefined ? 'tokens alone' : `hot ${hot}`}, ${cold.mode}`,
  peer: /** @type {const} */ ('wisp'),
  model: () => modelOf(kind, hot),
  cold,
});

/** @type {Contestant[]} */
const contestants = [
  {
    name: 'transformers.js q8',
    peer: /** @type {const} */ ('transformers'),
    model: () => 'minilm',
  },
  ...['default', 'q8', 'q8s', 'q4'].map((kind) => ({
    name: `wisp ${kind}, whole file`,
    peer: /** @type {const} */ ('wisp'),
    model: () => modelOf(kind),
  })),
  ...['q8', 'q8s', 'q4'].flatMap((kind) => HOT_SHARES.map((hot) => byRange(kind, hot))),
  byRange('q8t'),
  byRange('q4t'),
  byRange('q8s', 0.5, { mode: 'skip' }),
  byRange('q4', 0.5, { mode: 'skip' }),
]
  .filter(({ name }) => !values.only || values.only.split(';').some((part) => name.includes(part)))
  .map((each) => ({ cold: undefined, ...each, model: each.model() }));

const site = `${FOLDER}site`;
/** @param {string} from @param {string} to */
const put = (from, to) => publish(from, `${site}/${to}`);
mkdirSync(site, { recursive: true });
for (const name of readdirSync(`${ROOT}js`)) {
  if (/browser|worker|^wisp-(relaxed|simd128)\.wasm$|\.js$/.test(name)) put(`${ROOT}js/${name}`, `js/${name}`); // prettier-ignore
}
for (const name of ['page.mjs', 'transformers_worker.mjs']) put(`${ROOT}bench/cold/${name}`, `cold/${name}`); // prettier-ignore
if (contestants.some(({ peer }) => peer === 'transformers')) {
  put(`${PACKAGES}/@huggingface/transformers/dist/transformers.min.js`, 'cold/transformers.min.js');
  for (const end of ['mjs', 'wasm']) put(`${PACKAGES}/onnxruntime-web/dist/ort-wasm-simd-threaded.asyncify.${end}`, `cold/ort-wasm-simd-threaded.asyncify.${end}`); // prettier-ignore
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'onnx/model_quantized.onnx']) put(`${values.onnx}/${name}`, `models/minilm/${name}`); // prettier-ignore
}
// A bundler would make one file of the package's modules; these links let the browser fetch all at once instead.
/** @param {string} name @param {Set<string>} [found] @returns {Set<string>} */
function modulesOf(name, found = new Set()) {
  if (found.has(name)) return found;
  found.add(name);
  const text = readFileSync(`${ROOT}js/${name}`, 'utf8');
  for (const [, next] of text.matchAll(/^(?:import|export|\}) .*?from '\.\/([^']+)'/gms)) modulesOf(next, found); // prettier-ignore
  return found;
}
/** @param {string[]} names */
const pageOf = (...names) => {
  const all = new Set(names.flatMap((name) => [...modulesOf(name)]));
  const links = [...all].map((name) => `<link rel="modulepreload" href="/js/${name}" />`);
  return readFileSync(`${ROOT}bench/cold/page.html`, 'utf8').replace(/<!--.*-->/, links.join('\n'));
};
mkdirSync(`${FOLDER}pages`, { recursive: true });
const PAGES = {
  whole: pageOf('browser.js', 'worker-browser.js'),
  cold: pageOf('browser.js', 'cold-browser.js', 'cold-worker-browser.js'),
  transformers: pageOf(),
};
for (const [name, text] of Object.entries(PAGES)) {
  writeFileSync(`${FOLDER}pages/${name}.html`, text);
  put(`${FOLDER}pages/${name}.html`, `cold/${name}.html`);
}
/** @param {string} path */
const published = (path) => {
  const name = path.slice(path.lastIndexOf('/') + 1);
  put(path, `models/${name}`);
  return `/models/${name}`;
};

const texts = readFileSync(textsOf('sts'), 'utf8').trim().split('\n');
/** Texts all over the list, the same for all in a round. @param {number} round */
const textOf = (round) => texts[(37 + 211 * round) % texts.length];
const nginx = await startNginx(site);
let version = '';

/** @param {Contestant} contestant @param {string} text */
async function visit({ peer, model, cold }, text) {
  const line = await throttle(nginx.port, {
    megabits: Number(values.megabits),
    roundTripMs: Number(values['round-trip']),
  });
  const browser = await launch(values.browser);
  version = browser.version;
  try {
    await browser.page.goto('about:blank');
    const page = peer === 'transformers' ? peer : cold ? 'cold' : 'whole';
    const what = { peer, model: peer === 'wisp' ? published(model) : model, text, cold };
    await browser.page.goto(
      `${line.origin}/cold/${page}.html#${encodeURIComponent(JSON.stringify(what))}`,
    );
    const found = await Promise.race([
      browser.page.evaluate(/** @type {any} */ ('globalThis.visited')),
      new Promise((_, fail) => setTimeout(fail, 180_000, new Error('the visit takes too long'))),
    ]);
    const idle = line.down.idle(found.at - 1000 * found.seconds, found.at);
    return { ...found, bytes: line.down.bytesAt(found.at), idle };
  } finally {
    await browser.close();
    line.close();
  }
}

/**
 * Returns how near a row is to that of the whole model, natively: for transformers.js, of wisp's default one. Throws
 * if the two should be the same.
 * @param {Contestant} contestant
 * @param {string} text
 * @param {number[]} row
 */
function compare({ name, peer, model, cold }, text, row) {
  const path = peer === 'wisp' ? model : modelOf('default');
  const args = cold ? ['--predictor', 'lowrank'] : [];
  const [whole] = nativeRows(path, [text], ...args).rows;
  if (peer === 'wisp' && cold?.mode !== 'skip') checkRow(name, row, whole);
  return cosine(row, whole);
}

/** @type {Map<string, any[]>} */
const runs = new Map(contestants.map(({ name }) => [name, []]));
const before = loadavg()[0];
try {
  for (let round = 0; round < Number(values.rounds); round++)
    for (const contestant of round % 2 ? [...contestants].reverse() : contestants) {
      const text = textOf(round);
      const found = await visit(contestant, text);
      found.cosine = compare(contestant, text, found.row);
      console.error(`${contestant.name}: cosine ${found.cosine.toFixed(4)}, ${found.seconds.toFixed(2)} s, ${(found.bytes / 1e6).toFixed(2)} MB, opened after ${found.opened.toFixed(2)} s, line idle for ${(found.idle.seconds).toFixed(2)} s ${JSON.stringify(found.idle.gaps)} ${JSON.stringify(found.cold ?? {})}`); // prettier-ignore
      runs.get(contestant.name)?.push(found);
    }
} finally {
  await nginx.close();
}

const results = contestants.map(({ name, peer, model, cold }) => {
  const all = runs.get(name) ?? [];
  return {
    name,
    peer,
    model: model.slice(model.lastIndexOf('/') + 1),
    cold,
    about: all[0].about,
    seconds: median(all.map(({ seconds }) => seconds)),
    opened: median(all.map(({ opened }) => opened)),
    bytes: median(all.map(({ bytes }) => bytes)),
    runs: all.map(({ cosine: near, seconds, opened, bytes, idle, cold: stats }) => ({
      cosine: near,
      seconds,
      opened,
      bytes,
      idle,
      stats,
    })),
  };
});
const report = {
  when: new Date().toISOString(),
  cpu: cpus()[0].model,
  cores: cpus().length,
  load: [before, loadavg()[0]],
  server: nginx.version,
  line: 'a proxy of bench/cold/throttle.mjs',
  ...values,
  browser: `${values.browser} ${version}`,
  results,
};
if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
const base = results.find(({ peer }) => peer === 'transformers');
const share = (/** @type {number} */ a, /** @type {number | undefined} */ b) => b ? `${((100 * a) / b).toFixed(0)} %` : ''; // prettier-ignore
console.log('| | bytes, MB | of transformers.js | seconds | of transformers.js | opened after, s |\n|---|---|---|---|---|---|'); // prettier-ignore
for (const { name, bytes, seconds, opened } of results)
  console.log(`| ${name} | ${(bytes / 1e6).toFixed(2)} | ${share(bytes, base?.bytes)} | ${seconds.toFixed(2)} | ${share(seconds, base?.seconds)} | ${opened.toFixed(2)} |`); // prettier-ignore
process.exit(0);
