// SPDX-License-Identifier: Apache-2.0

// Bundles the page into one HTML text and writes it as a C++ source: node build.mjs PAGE.cpp

import {build} from 'esbuild';
import {mkdir, readFile, writeFile} from 'node:fs/promises';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const source = join(dirname(fileURLToPath(import.meta.url)), 'src');
const options = {
  bundle: true,
  minify: true,
  write: false,
  charset: 'ascii',
  target: 'es2022',
  legalComments: 'none',
  logLevel: 'warning'
};

const bundle = async (entry, more) => {
  const result = await build({...options, entryPoints: [join(source, entry)], ...more});
  return result.outputFiles[0].text.trim();
};

// `import code from './layout.worker.js?text'` gives the bundled worker as a string: a page that
// opens from a disk has no other file to start one from.
const workers = {
  name: 'workers',
  setup({onResolve, onLoad}) {
    onResolve(
        {filter: /\?text$/},
        ({path}) => ({path: path.replace(/^\.\//, '').replace('?text', ''), namespace: 'text'}));
    onLoad(
        {filter: /.*/, namespace: 'text'},
        async ({path}) => ({contents: await bundle(path, {format: 'iife'}), loader: 'text'}));
  },
};

// The parser of HTML ends a script at "</script" and treats "<!--" specially, wherever they stand.
const inScript = (text) => text.replace(/<(?=\/script|!--)/gi, '\\x3C');

export const page = async () => {
  const [html, style, script] = await Promise.all([
    readFile(join(source, 'index.html'), 'utf8'),
    bundle('style/index.css', {}),
    bundle('main.js', {format: 'iife', plugins: [workers]}),
  ]);
  return html.replace('%STYLE%', () => style).replace('%SCRIPT%', () => inScript(script));
};

// Compilers limit the length of one literal, and take seconds for long ones: so the text comes in
// pieces.
const cpp = (text) => {
  const pieces = text.match(/[^]{1,400}/g).map((piece) => `R"refx(${piece})refx"`);
  return `// Made by web/build.mjs.

#include <string>

#include "report/page.h"

namespace refx {

std::string_view page_template() {
  static const std::string page = [] {
    std::string text;
    for (const char* piece : {
${pieces.join(',\n')}})
      text += piece;
    return text;
  }();
  return page;
}

}  // namespace refx
`;
};

const [to] = process.argv.slice(2);
if (!to) throw new Error('usage: node build.mjs PAGE.cpp');
await mkdir(dirname(to), {recursive: true});
await writeFile(to, cpp(await page()));
