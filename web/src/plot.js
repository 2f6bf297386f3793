// SPDX-License-Identifier: Apache-2.0
import {h, svg} from './dom.js';

// What the plots are made of.

export const WIDTH = 680;

export const plot = (height, label, ...children) =>
    svg('svg', {class: 'plot', viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': label},
        ...children);

export const text = (x, y, content, className = '', title = null) =>
    svg('text', {x, y, class: className}, content, title && svg('title', {}, title));

export const axis = (scale, top, bottom) => scale.ticks.map(
    ({at, text: label}) =>
        svg('g', {}, svg('line', {x1: at, x2: at, y1: top, y2: bottom, class: 'grid'}),
            text(at, bottom + 16, label, 'tick')));

export const note = (content) => h('p', {class: 'note'}, content);

// The first rows of many, and a button for the rest.
export const firstOf = (items, limit, draw) => {
  const box = h('div', {}, draw(items.slice(0, limit)));
  if (items.length > limit)
    box.append(h(
        'button', {type: 'button', class: 'more', onclick: () => box.replaceChildren(draw(items))},
        `Show all ${items.length.toLocaleString('en-US')}`));
  return box;
};
