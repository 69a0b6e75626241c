// SPDX-License-Identifier: Apache-2.0
// wisp-engine/convert for require().
'use strict';
const { WispError, lazy } = require('./lazy.cjs');

const loadModule = lazy(() => import('./convert-node.js'), 'convert-node.js');

module.exports = {
  WispError,
  /**
   * @param {import('../types/convert.js').ConvertSource} source
   * @param {import('../types/convert.js').ConvertOptions & { output?: string }} [options]
   */
  async convert(source, options) {
    return (await loadModule()).convert(source, options);
  },
};
