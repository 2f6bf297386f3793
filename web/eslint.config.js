// SPDX-License-Identifier: Apache-2.0

// What clang-format does not see: names that are not declared or not used, and habits that hide
// mistakes. `make lint` runs it from the folder above, for tests/report too.

import js from '@eslint/js';
import globals from 'globals';

export default [
  js.configs.recommended,
  {
    languageOptions: {ecmaVersion: 2022, sourceType: 'module'},
    linterOptions: {reportUnusedDisableDirectives: 'error'},
    rules: {
      'array-callback-return': 'error',
      'eqeqeq': 'error',
      'no-self-compare': 'error',
      'no-shadow': 'error',
      'no-unmodified-loop-condition': 'error',
      'no-unused-expressions': 'error',
      'no-use-before-define': ['error', {functions: false, variables: false}],
      'no-useless-return': 'error',
      'no-var': 'error',
      'object-shorthand': 'error',
      'prefer-const': 'error',
    },
  },
  {
    files: ['**/src/*.js'],
    ignores: ['**/*.worker.js'],
    languageOptions: {globals: globals.browser}
  },
  {files: ['**/src/*.worker.js'], languageOptions: {globals: globals.worker}},
  {files: ['**/*.mjs'], languageOptions: {globals: globals.node}},
  // Its functions run in the page as well.
  {files: ['**/browser.mjs'], languageOptions: {globals: globals.browser}},
];
