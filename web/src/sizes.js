// SPDX-License-Identifier: Apache-2.0
import {svg} from './dom.js';
import {note, plot, text, WIDTH} from './plot.js';
import {amount} from './words.js';

const LEFT = 110, ROW = 30, RIGHT = 80;

// From zero, so that lengths compare.
const bars = (rows) => {
  const most = Math.max(1, ...rows.map((r) => r.bytes));
  return plot(
      8 + rows.length * ROW, 'Bytes before and after', rows.map(({name, kind, bytes}, i) => {
        const y = 8 + (i + 0.5) * ROW, width = bytes / most * (WIDTH - LEFT - RIGHT);
        return svg(
            'g', {class: `size ${kind}`, 'data-bytes': bytes},
            svg('title', {}, `${name}: ${bytes}`), text(LEFT - 12, y + 4, name, 'row'),
            svg('rect', {x: LEFT, y: y - 9, width, height: 18, rx: 3, class: 'bar'}),
            text(LEFT + width + 8, y + 4, amount(bytes), 'hint'));
      }));
};

export const sizesView = ({before, after, file, steps}) => {
  const kept = file?.history || steps.reduce((sum, step) => sum + step.bytes, 0);
  return [
    bars([
      {name: 'original', kind: 'was', bytes: before.bytes},
      {name: 'now', kind: 'now', bytes: after.bytes},
      {name: 'for undo', kind: 'undo', bytes: kept},
    ]),
    note(
        `Weights now: ${(100 * after.bytes / before.bytes).toFixed()}% of the original's.` +
        (file?.history ?
             ` The file has ${amount(file.bytes)}, ${amount(file.history)} of them for undo.` :
             '')),
  ];
};
