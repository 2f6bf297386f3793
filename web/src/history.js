// SPDX-License-Identifier: Apache-2.0
import {changesView} from './changes.js';
import {h} from './dom.js';
import {measuredColumns} from './measured.js';
import {amount, count, plural} from './words.js';

// Rows that are drawn at once: a browser is slow at tables of many thousands.
const SHOWN = 200;

const searchable = (step) =>
    `${step.id} ${step.signature} ${step.transformation} ${step.site}`.toLowerCase();

const settings = (parameters) => Object.entries(parameters)
                                     .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
                                     .join(', ');

const details = (step, showInGraph) =>
    h('div', {class: 'step-details'},
      h('div', {class: 'step-head'},
        h('span', {class: 'quiet'},
          [step.signature !== step.transformation && step.signature, settings(step.parameters)]
              .filter(Boolean)
              .join('  ')),
        h('button',
          {type: 'button', onclick: () => showInGraph(step), disabled: step.nodes.length === 0},
          'Show in graph')),
      changesView(step.lines));

const heading = (name, className = null, title = null) =>
    h('th', {scope: 'col', class: className, title}, name);

const measuredCell = (cell) => cell ?
    h('td', {class: `number ${cell.tone ?? ''}`, title: cell.title}, cell.text) :
    h('td', {class: 'number'}, '\u2013');

// The table of steps. A click on one shows its before and after under it.
export const showHistory = (section, data, showInGraph) => {
  const texts = data.steps.map(searchable);
  const measured = measuredColumns(data);
  const body = h('tbody');
  const status = h('span', {class: 'quiet', role: 'status'});
  const more =
      h('button',
        {type: 'button', class: 'more', onclick: () => draw(body.dataset.shown * 1 + SHOWN)},
        'Show more');
  const filter = h('input', {
    type: 'search',
    id: 'filter',
    placeholder: 'Filter by transformation, site or id',
    'aria-label': 'Filter the steps',
    autocomplete: 'off',
    spellcheck: 'false',
    oninput: () => draw(),
  });
  const opened = new Set();

  const row = (step) => {
    const button = h(
        'button',
        {type: 'button', class: 'link', 'aria-expanded': 'false', 'aria-label': `Step ${step.id}`},
        `${step.id}`);
    const under = h('tr', {class: 'under', hidden: true}, h('td', {colspan: 5 + measured.length}));
    const toggle = (open) => {
      if (open)
        opened.add(step);
      else
        opened.delete(step);
      button.setAttribute('aria-expanded', open);
      head.classList.toggle('open', open);
      under.hidden = !open;
      if (open && !under.firstChild.firstChild) under.firstChild.append(details(step, showInGraph));
    };
    const head =
        h('tr', {class: 'step', 'data-step': step.id, onclick: () => toggle(under.hidden)},
          h('td', {class: 'number'}, button), h('td', {}, step.transformation),
          h('td', {class: 'site'}, h('code', {}, step.site)),
          measured.map(({cells}) => measuredCell(cells.get(step.id))),
          h('td', {class: 'number'}, count(step.nodes.length)),
          h('td', {class: 'number'}, step.bytes ? amount(step.bytes) : '\u2013'));
    if (opened.has(step)) toggle(true);
    return [head, under];
  };

  const draw = (limit = SHOWN) => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = data.steps.filter((_, i) => words.every((word) => texts[i].includes(word)));
    body.dataset.shown = limit;
    body.replaceChildren(...found.slice(0, limit).flatMap(row));
    status.textContent = words.length ?
        `${count(found.length)} of ${plural(texts.length, 'step')}` :
        plural(texts.length, 'step');
    more.hidden = found.length <= limit;
  };

  section.append(
      h('div', {class: 'bar'}, filter, status),
      data.steps.length === 0 ?
          h('p', {class: 'empty'}, 'This model has no steps.') :
          h('div', {class: 'scroll'},
            h('table', {class: 'steps'},
              h('thead', {},
                h('tr', {}, heading('Step', 'number'), heading('Transformation'), heading('Site'),
                  measured.map(({name, title}) => heading(name, 'number', title)),
                  heading('Nodes', 'number'), heading('Kept for undo', 'number'))),
              body)),
      more);
  draw();

  const open = (step) => {
    filter.value = '';
    opened.add(step);
    draw(Math.max(SHOWN, data.steps.indexOf(step) + 1));
    const head = body.querySelector(`[data-step="${step.id}"]`);
    head.scrollIntoView({block: 'center'});
    head.querySelector('button').focus();
  };
  return {open};
};
