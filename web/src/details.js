// SPDX-License-Identifier: Apache-2.0
import {changesView} from './changes.js';
import {h} from './dom.js';
import {count} from './words.js';

const SHOWN = 12;

const usersOf = (index, edges) => {
  const users = [];
  for (let i = 0; i < edges.from.length; ++i)
    if (edges.from[i] === index) users.push(edges.to[i]);
  return users;
};

const inputsOf = (node) => [...new Set([
  ...(node.after === null ? [] : node.inputs), ...(node.before === null ? [] : node.inputsBefore)
])];

const WORDS = {
  same: 'unchanged',
  added: 'added',
  removed: 'removed',
  changed: 'changed'
};

const link = (text, className, go, title = null) =>
    h('button', {type: 'button', class: `link ${className}`, title, onclick: go}, text);

const list = (items) => h('ul', {class: 'links'}, items.map((content) => h('li', {}, content)));

const neighbours = (title, indices, data, go) => {
  if (indices.length === 0) return null;
  const shown = indices.slice(0, SHOWN).map((i) => data.nodes[i]);
  return [
    h('h3', {}, title),
    list(shown.map(
        (node) =>
            [link(node.label, node.state, () => go(node), node.name),
             h('span', {class: 'quiet'}, ` ${node.op}`)])),
    indices.length > SHOWN && h('p', {class: 'note'}, `and ${count(indices.length - SHOWN)} more`),
  ];
};

const stepsOf = (node, open) => node.steps.length > 0 && [
  h('h3', {}, 'Steps that wrote it'),
  list(node.steps.map(
      (step) =>
          [link(`${step.id}  ${step.transformation}`, '', () => open(step)),
           h('span', {class: 'quiet'}, ` ${step.site}`)])),
];

// Where a node is, besides what its label says.
const placeOf =
    ({name, label, path}) => [name !== label && `node ${name}`,
                              !path ? 'in the model itself' : path !== label && `in ${path}`,
].filter(Boolean).join(' ');

// What is known of one node, with ways to its neighbours and its steps.
export const nodeDetails = (node, data, {goTo, openStep}) =>
    [h('h2', {}, node.label),
     h('p', {}, h('span', {class: `state ${node.state}`}, WORDS[node.state]), ' ',
       h('code', {}, node.target)),
     h('p', {class: 'quiet'}, placeOf(node)),
     h('h3', {}, node.state === 'changed' ? 'Before and after' : 'Text'),
     changesView([{before: node.before, after: node.after}]),
     stepsOf(node, openStep),
     neighbours('Inputs', inputsOf(node), data, goTo),
     neighbours('Users', usersOf(node.index, data.edges), data, goTo),
];
