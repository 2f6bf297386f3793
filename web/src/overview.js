// SPDX-License-Identifier: Apache-2.0
import {benchView} from './bench.js';
import {h} from './dom.js';
import {frontierView} from './frontier.js';
import {sensitivityView} from './sensitivity.js';
import {sizesView} from './sizes.js';
import {verifyView} from './verify.js';
import {amount, count} from './words.js';

const card = (name, value, detail) =>
    h('div', {class: 'card'}, h('div', {class: 'name'}, name), h('div', {class: 'value'}, value),
      h('div', {class: 'quiet'}, detail || '\u00a0'));

// "62, was 74"
const changed = (name, before, after, words) =>
    card(name, words(after), before === after ? 'as in the original' : `was ${words(before)}`);

const tally = (items) => {
  const counts = new Map();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
};

// Operators by how often they are called, those whose number changed first.
const operatorTable = (nodes) => {
  const called = nodes.filter((n) => !['weight', 'input', 'output'].includes(n.op));
  const before = tally(called.filter((n) => n.before !== null).map((n) => n.opBefore));
  const after = tally(called.filter((n) => n.after !== null).map((n) => n.op));
  const rows = [...new Set([...before.keys(), ...after.keys()])]
                   .map((op) => ({op, was: before.get(op) ?? 0, now: after.get(op) ?? 0}))
                   .sort(
                       (a, b) => (b.was !== b.now) - (a.was !== a.now) ||
                           b.now + b.was - a.now - a.was || (a.op < b.op ? -1 : 1));
  const shown = rows.slice(0, 14);
  return h(
      'div', {},
      h('table', {},
        h('thead', {},
          h('tr', {},
            ['Operator', 'Before', 'After',
             ''].map((t, i) => h('th', {scope: 'col', class: i ? 'number' : null}, t)))),
        h('tbody', {},
          shown.map(
              ({op, was, now}) => h(
                  'tr', {}, h('td', {}, h('code', {}, op)), h('td', {class: 'number'}, count(was)),
                  h('td', {class: 'number'}, count(now)),
                  h('td',
                    {class: `number ${
                         now === was   ? '' :
                             now < was ? 'less' :
                                         'more-of'}`},
                    now === was ? '' :
                                  `${now > was ? '+' : '\u2212'}${count(Math.abs(now - was))}`))))),
      rows.length > shown.length &&
          h('p', {class: 'note'}, `and ${count(rows.length - shown.length)} more`));
};

const stepTable = (steps, open) => {
  if (steps.length === 0) return h('p', {class: 'note'}, 'None: this is the original.');
  const rows = [...tally(steps.map((s) => s.transformation))];
  return h(
      'div', {},
      h('table', {},
        h('tbody', {},
          rows.map(([name,
                     n]) => h('tr', {}, h('td', {}, name), h('td', {class: 'number'}, count(n)))))),
      h('p', {class: 'note'},
        h('button', {type: 'button', class: 'link', onclick: open}, 'All steps')));
};

const panel = (title, ...content) =>
    h('article', {class: 'panel', 'aria-label': title}, h('h2', {}, title), ...content);

const RESULTS = {
  'pass': ['the same', 'up to rounding'],
  'lossy': ['lossy', 'within the budget'],
  'not judged': ['not judged', 'no budget given'],
  'cannot tell': ['cannot tell', 'see below'],
  'fail': ['different', 'see below'],
};

export const showOverview = (section, data, open) => {
  const {before, after, steps, verification, benchmark, sensitivity, tuning} = data;
  const kept = steps.reduce((sum, step) => sum + step.bytes, 0);
  section.append(
      h('div', {class: 'cards'},
        card('Steps', count(steps.length), kept ? `${amount(kept)} kept for undo` : ''),
        changed('Nodes', before.nodes, after.nodes, count),
        changed('Tensors', before.tensors, after.tensors, count),
        changed('Weights', before.bytes, after.bytes, amount),
        card('Results', ...(RESULTS[verification.verdict] ?? ['not verified', ''])),
        card(
            'Speed',
            benchmark.missing ? 'not timed' : `${(benchmark.contest.ratio ?? 0).toFixed(2)}\u00d7`,
            benchmark.missing ? '' : benchmark.contest.speed)),
      h('div', {class: 'panels'},
        h('div', {class: 'column'}, panel('Verification', ...verifyView(verification)),
          sensitivity && panel('Sensitivity', ...sensitivityView(sensitivity)),
          panel('Operators', operatorTable(data.nodes))),
        h('div', {class: 'column'},
          tuning?.within && panel('Error and gain', ...frontierView(tuning.within)),
          before.bytes !== after.bytes && panel('Size', ...sizesView(data)),
          panel('Speed', ...benchView(benchmark)),
          panel('Steps by transformation', stepTable(steps, open.history)))),
      h('footer', {class: 'quiet'}, `Written by refx ${data.version}`));
};
