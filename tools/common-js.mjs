// SPDX-License-Identifier: Apache-2.0
// node tools/common-js.mjs FOLDER: writes the entries for require() beside the package's ES modules in FOLDER. They export
// what the ES modules export, and load them when they are first used. tools/pack.mjs writes them into the package.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** The ES modules that have an entry for require(), as package.json names them. */
const ENTRIES = [
  ...[
    'node',
    'generate-node',
    'rerank-node',
    'hub-node',
    'convert-node',
    'cold-node',
    'index-node',
  ],
  ...['text', 'search', 'langchain', 'pipeline-node', 'ai'],
];

/** Exports that return at once what others return in a promise. @type {Record<string, string>} */
const BY_HAND = {
  embedStream: `/** @type {any} */
const embedStream = (/** @type {any[]} */ ...given) => {
  /** @type {Promise<AsyncIterableIterator<any>> | undefined} */
  let opening;
  const open = () =>
    (opening ??= loadModule().then((text) => text.embedStream(.../** @type {[any, any]} */ (given))));
  return {
    next: async () => (await open()).next(),
    return: async (/** @type {any} */ value) => (await open()).return?.(value),
    throw: async (/** @type {any} */ error) => (await open()).throw?.(error),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
};`,
  // The ES module says what is wrong with the options.
  embeddingModel: `/** @type {typeof import('./ai.js').embeddingModel} */
const embeddingModel = (embedder, options) => ({
  specificationVersion: options?.specificationVersion ?? 'v4',
  provider: 'wisp',
  modelId: embedder.info().name,
  maxEmbeddingsPerCall: Infinity,
  supportsParallelCalls: true,
  doEmbed: async (call) => (await loadModule()).embeddingModel(embedder, options).doEmbed(call),
});`,
  WispEmbeddings: `class WispEmbeddings {
  #given;
  /** @type {Promise<import('./langchain.js').WispEmbeddings> | undefined} */
  #made;

  /** @param {ConstructorParameters<typeof import('./langchain.js').WispEmbeddings>} given */
  constructor(...given) {
    this.#given = given;
  }

  #make() {
    return (this.#made ??= loadModule().then(
      (module) => new module.WispEmbeddings(...this.#given),
    ));
  }

  /** @param {string[]} documents */
  async embedDocuments(documents) {
    return (await this.#make()).embedDocuments(documents);
  }

  /** @param {string} document */
  async embedQuery(document) {
    return (await this.#make()).embedQuery(document);
  }

  get [Symbol.for('wisp-engine')]() {
    return 'WispEmbeddings';
  }

  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('WispEmbeddings', value);
  }
}`,
};

/**
 * The names of the static functions of a class, and of those that it extends.
 * @param {any} type
 * @returns {string[]}
 */
function staticsOf(type) {
  if (/\[native code\]/.test(Function.prototype.toString.call(type))) return [];
  const own = Object.getOwnPropertyNames(type).filter((name) => typeof type[name] === 'function');
  return [...own, ...staticsOf(Object.getPrototypeOf(type))];
}

/** @param {string} file @param {string} path of a function of the module, as in "Embedder.load" */
const callOf = (file, path) => `/** @type {typeof import('./${file}').${path}} */
async (...given) => (await loadModule()).${path}(...given)`;

/** A class by whose static functions objects are made. @param {string} file @param {string} name @param {any} type */
function classOf(file, name, type) {
  const members = staticsOf(type).map((member) =>
    // Nothing to release before the module was loaded.
    member === 'releaseModels'
      ? `static ${member}() {
    if (loadModule.begun()) void loadModule().then((module) => module.${name}.${member}());
  }`
      : `static ${member} = ${callOf(file, `${name}.${member}`)};`,
  );
  return `class ${name} {
  ${members.join('\n\n  ')}

  /** @param {any} value */
  static [Symbol.hasInstance](value) {
    return is('${name}', value);
  }
}`;
}

/** The declaration of an export. @param {string} file @param {string} name @param {any} value */
function declarationOf(file, name, value) {
  if (BY_HAND[name]) return BY_HAND[name];
  if (typeof value === 'function') {
    const isClass = /^class\b/.test(value.toString());
    return isClass ? classOf(file, name, value) : `const ${name} = ${callOf(file, name)};`;
  }
  const members = Object.entries(value).map(([key, member]) =>
    typeof member === 'function'
      ? `${key}: ${callOf(file, `${name}.${key}`)}`
      : `${key}: ${JSON.stringify(member)}`,
  );
  const object = `{ ${members.join(', ')} }`;
  return `const ${name} = ${Object.isFrozen(value) ? `Object.freeze(${object})` : object};`;
}

/**
 * The text of an entry.
 * @param {string} file the ES module
 * @param {Record<string, any>} module what it exports
 */
function entryOf(file, module) {
  const names = Object.keys(module).filter((name) => name !== 'WispError');
  const declarations = names.map((name) => declarationOf(file, name, module[name])).join('\n\n');
  const helpers = declarations.includes("is('") ? 'WispError, is, lazy' : 'WispError, lazy';
  return `// SPDX-License-Identifier: Apache-2.0
// ${file} for require(). Written by tools/common-js.mjs.
'use strict';
const { ${helpers} } = require('./base/lazy.cjs');

const loadModule = lazy(() => import('./${file}'), '${file}');

${declarations}

module.exports = { ${[...names, 'WispError'].join(', ')} };
`;
}

/** @param {string} folder of the package's ES modules */
export async function writeCommonJs(folder) {
  for (const entry of ENTRIES) {
    const file = `${entry}.js`;
    const module = await import(pathToFileURL(join(folder, file)).href);
    writeFileSync(join(folder, `${entry}.cjs`), entryOf(file, module));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writeCommonJs(process.argv[2]);
