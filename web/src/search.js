// SPDX-License-Identifier: Apache-2.0
import {h} from './dom.js';
import {count, tailOf} from './words.js';

const SHOWN = 50;

const lastOf = (path) => path.slice(path.lastIndexOf('.') + 1);

// A box that finds nodes by name, operator or module, best first. Nodes are listed by their label.
const search = (nodes, texts, query) => {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const found = nodes.filter((_, i) => words.every((word) => texts[i].includes(word)));
  // What is named so comes before what only belongs to something named so, calls before weights.
  const rankOf = (names) => names.includes(words[0])        ? 0 :
      names.some((name) => lastOf(name).includes(words[0])) ? 1 :
                                                              2;
  const rank = (node) => rankOf([node.name.toLowerCase(), node.label.toLowerCase()]) * 2 +
      (node.op === 'weight' ? 1 : 0);
  return found.map((node) => [rank(node), node])
      .sort(([a, x], [b, y]) => a - b || x.index - y.index)
      .map(([, node]) => node);
};

export const searchBox = (nodes, choose) => {
  let texts = null, first = null;
  const list = h('ul', {class: 'results', id: 'results', hidden: true});
  const status = h('span', {class: 'visually-hidden', role: 'status'});
  const close = () => {
    list.hidden = true;
  };
  const pick = (node) => {
    close();
    choose(node);
  };

  const update = () => {
    texts ??= nodes.map(
        (n) => `${n.path}.${n.name} ${n.label} ${n.target} ${n.op} ${n.opBefore}`.toLowerCase());
    const found = search(nodes, texts, input.value);
    list.hidden = found === null;
    if (!found) return;
    first = found[0];
    status.textContent = `${count(found.length)} found`;
    list.replaceChildren(
        h('li', {class: 'quiet head'},
          found.length === 0 ?
              'Nothing found' :
              `${count(found.length)} found${found.length > SHOWN ? `, the first ${SHOWN}` : ''}`),
        ...found.slice(0, SHOWN).map(
            (node) =>
                h('li', {},
                  h('button', {
                    type: 'button',
                    class: `result ${node.state}`,
                    title: node.label,
                    onclick: () => pick(node)
                  },
                    h('span', {class: 'what'}, tailOf(node.label, 54)),
                    h('span', {class: 'quiet where'}, `${node.op} \u00b7 ${node.name}`)))));
  };

  const input = h('input', {
    type: 'search',
    id: 'search',
    placeholder: 'Search nodes',
    'aria-label': 'Search nodes by name, operator or module',
    'aria-controls': 'results',
    autocomplete: 'off',
    spellcheck: 'false',
    oninput: update,
    onfocus: update,
  });
  const box = h('div', {class: 'search'}, input, list, status);
  box.addEventListener('keydown', (event) => {
    const buttons = [...list.querySelectorAll('button')];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === 'Escape')
      close();
    else if (event.key === 'Enter' && event.target === input && first && !list.hidden)
      pick(first);
    else if (event.key === 'ArrowDown')
      (buttons[at + 1] ?? buttons[0])?.focus();
    else if (event.key === 'ArrowUp')
      (at > 0 ? buttons[at - 1] : input).focus();
    else
      return;
    event.preventDefault();
  });
  box.addEventListener('focusout', ({relatedTarget}) => {
    if (!box.contains(relatedTarget)) close();
  });
  return box;
};
