// SPDX-License-Identifier: Apache-2.0
import {h} from './dom.js';

// The end points of the part in which two lines differ.
const difference = (a, b) => {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) ++start;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end))
    ++end;
  return [start, end];
};

const line = (kind, sign, text, other) => {
  const content = [text];
  if (other !== null) {
    const [start, end] = difference(text, other);
    const stop = text.length - end;
    content.splice(
        0, 1, text.slice(0, start), h('mark', {}, text.slice(start, stop)), text.slice(stop));
  }
  return h(
      'div', {class: `line ${kind}`}, h('span', {class: 'sign', 'aria-hidden': true}, sign),
      h('code', {}, content));
};

// [{before, after}], null where there is none, as a difference of texts.
export const changesView = (lines) => {
  if (lines.length === 0) return h('p', {class: 'quiet'}, 'No changes in this part.');
  return h(
      'div', {class: 'changes'},
      lines.map(
          ({before, after}) =>
              h('div', {class: 'change'},
                before === after && before !== null ? line('same', ' ', before, null) : [
                  before !== null && line('removed', '\u2212', before, after),
                  after !== null && line('added', '+', after, before)
                ])));
};
