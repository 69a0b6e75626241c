// SPDX-License-Identifier: Apache-2.0
// wisp-engine/langchain for require().
'use strict';
const { WispError, is, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./langchain.js'), 'langchain.js');

/** Makes the ES module's object when it is first asked for something, which says what is wrong with the options. */
class WispEmbeddings {
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
}

module.exports = { WispEmbeddings, WispError };
