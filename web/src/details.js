import {changesView} from './changes.js';
import {h} from './dom.js';
import {count} from './words.js';

const SHOWN = 12;

const usersOf = (index, edges) => {
  const users = [];
  for (let i = 0; i < edges.from.length; ++i) if (edges.from[i] === index) users.push(edges.to[i]);
  return users;
};

const inputsOf = (node) => [...new Set([...(node.after === null ? [] : node.inputs), ...(node.before === null ? [] : node.inputsBefore)])];

const WORDS = {same: 'unchanged', added: 'added', removed: 'removed', changed: 'changed'};

const links = (title, indices, data, go) => indices.length > 0 && [
  h('h3', {}, title),
  h('ul', {class: 'links'}, indices.slice(0, SHOWN).map((i) => h('li', {}, h('button', {type: 'button', class: `link ${data.nodes[i].state}`, onclick: () => go(data.nodes[i])},
      data.nodes[i].name), h('span', {class: 'quiet'}, ` ${data.nodes[i].op}`)))),
  indices.length > SHOWN && h('p', {class: 'note'}, `and ${count(indices.length - SHOWN)} more`),
];

// What is known of one node, with ways to its neighbours and its steps.
export const nodeDetails = (node, data, {goTo, openStep}) => [
  h('h2', {}, node.name),
  h('p', {}, h('span', {class: `state ${node.state}`}, WORDS[node.state]), ' ', h('code', {}, node.target)),
  h('p', {class: 'quiet'}, node.path ? `in ${node.path}` : 'in the model itself'),
  h('h3', {}, node.state === 'changed' ? 'Before and after' : 'Text'),
  changesView([{before: node.before, after: node.after}]),
  node.steps.length > 0 && [h('h3', {}, 'Steps that wrote it'), h('ul', {class: 'links'}, node.steps.map((step) =>
      h('li', {}, h('button', {type: 'button', class: 'link', onclick: () => openStep(step)}, `${step.id}  ${step.transformation}`), h('span', {class: 'quiet'}, ` ${step.site}`))))],
  links('Inputs', inputsOf(node), data, goTo),
  links('Users', usersOf(node.index, data.edges), data, goTo),
];
