// SPDX-License-Identifier: Apache-2.0
import js from '@eslint/js';
import globals from 'globals';

export default [
  { ignores: ['build/', 'types/', '.tools/', 'node_modules/'] },
  js.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.worker, ...globals.node } },
    rules: {
      eqeqeq: 'error',
      'no-var': 'error',
      'prefer-const': 'error',
      'no-unused-vars': ['error', { args: 'after-used' }],
    },
  },
];
