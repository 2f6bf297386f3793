// SPDX-License-Identifier: Apache-2.0
import {count, plural, shortened, tailOf} from './words.js';

// The labels of items and the room that they take.

const pen = document.createElement('canvas').getContext('2d');
const widthOf = (text, font) => {
  pen.font = font;
  return pen.measureText(text).width;
};
const BOLD = '600 13px system-ui, sans-serif', SMALL = '11px system-ui, sans-serif';

const summaryOf = ({same, added, removed, changed}) => {
  const nodes = same + added + removed + changed;
  const parts = [
    added && `+${count(added)}`, removed && `\u2212${count(removed)}`,
    changed && `~${count(changed)}`
  ];
  return [plural(nodes, 'node'), ...parts.filter(Boolean)].join('  ');
};

// The one state that all nodes of an item have; else 'same' or 'mixed'.
export const stateOf = ({counts}) => {
  const present = Object.keys(counts).filter((state) => counts[state] > 0);
  return present.length === 1 ? present[0] : 'mixed';
};

export const labelOf = (item, nodes) => {
  if (item.label !== undefined) {
    return {
      title: shortened(item.label, 34),
      titles: null,
      detail: item.part ? `from ${tailOf(firstLabel(item, nodes), 26)}` : null,
      summary: summaryOf(item.counts),
    };
  }
  const node = nodes[item.node];
  const titles = node.op === node.opBefore ?
      null :
      {before: shortened(node.opBefore, 16), after: shortened(node.op, 16)};
  return {
    title: titles ? `${titles.before} \u2192 ${titles.after}` : shortened(node.op, 30),
    titles,
    summary: node.op === 'weight' ? tailOf(node.label, 30) : shortened(node.name, 30),
  };
};

const firstLabel = (item, nodes) => {
  while (item.part) [item] = item.children;
  return item.label ?? nodes[item.node].label;
};

export const sizes = (nodes) => {
  const known = new Map();
  return (item) => {
    let size = known.get(item);
    if (!size) {
      const {title, summary, detail} = labelOf(item, nodes);
      const text = Math.max(
          widthOf(title, BOLD) + (item.children ? 18 : 0), widthOf(summary, SMALL),
          detail ? widthOf(detail, SMALL) : 0);
      size = {width: Math.max(84, Math.ceil(text) + 28), height: detail ? 58 : 44};
      known.set(item, size);
    }
    return size;
  };
};
