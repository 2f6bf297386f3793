// SPDX-License-Identifier: Apache-2.0
import {h} from './dom.js';

const FORMS = [['before', 'Before'], ['both', 'Both'], ['after', 'After']];

// Before | Both | After
const formSwitch = (choose) =>
    h('div', {class: 'switch', role: 'radiogroup', 'aria-label': 'Form of the graph to show'},
      FORMS.map(
          ([form, label]) =>
              h('label', {}, h('input', {
                  type: 'radio',
                  name: 'form',
                  value: form,
                  checked: form === 'both',
                  onchange: () => choose(form),
                }),
                h('span', {}, label))));

const button = (label, title, onclick) =>
    h('button', {type: 'button', title, 'aria-label': title, onclick}, label);

const legend = () =>
    h('div', {class: 'legend'},
      ['added', 'removed', 'changed'].map((state) => h('span', {class: `key ${state}`}, state)));

export const toolbar = (search, view) =>
    h('div', {class: 'bar toolbar'}, search, formSwitch((form) => view.showForm(form)),
      h('div', {class: 'buttons'},
        button('Next change', 'Show the nodes of the next step', () => view.nextStep()),
        button('Close all', 'Close all modules', () => view.closeAll()),
        button('Fit', 'Fit the drawing into the window', () => view.fit()),
        button('+', 'Zoom in', () => view.zoomBy(1.4)),
        button('\u2212', 'Zoom out', () => view.zoomBy(1 / 1.4))),
      legend());
