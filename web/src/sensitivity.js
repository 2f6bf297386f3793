// SPDX-License-Identifier: Apache-2.0
import {h, svg} from './dom.js';
import {axis, firstOf, note, plot, text, WIDTH} from './plot.js';
import {logScale} from './scale.js';
import {amount, error, plural, tailOf} from './words.js';

const LEFT = 250, RIGHT = 70, ROW = 18, TOP = 8;

const STATES = {
  kept: 'in the model',
  'not-kept': 'reversed, or not applied'
};
const stateOf = (step) => step.in_model ? 'kept' : 'not-kept';

const description = (s) => `${s.id} ${s.transformation} at ${s.site}: error ${error(s.error)}` +
    `${s.sqnr === null ? '' : `, ${s.sqnr.toFixed(1)} dB`}; ${amount(s.bytes_before)}, now ${
                               amount(s.bytes_after)}; ${STATES[stateOf(s)]}`;

// One scale for all rows, also for those that are not shown yet.
const scaleOf = (steps) => {
  const values = steps.map((s) => s.error).filter((x) => x > 0);
  if (values.length === 0) values.push(1e-6, 1e-3);
  return logScale(Math.min(...values) / 1.5, Math.max(...values), LEFT, WIDTH - RIGHT);
};

const bars = (scale, worst) => (steps) => {
  const bottom = TOP + steps.length * ROW, end = WIDTH - RIGHT;
  return plot(
      bottom + 28, 'Error of each lossy step alone, on a logarithmic scale',
      axis(scale, TOP, bottom), steps.map((s, i) => {
        const y = TOP + (i + 0.5) * ROW;
        // What is not finite goes to the end, and an error of zero has no bar.
        const to = s.error === null ? end : s.error === 0 ? LEFT : scale.at(s.error);
        return svg(
            'g', {class: `loss ${stateOf(s)}${s === worst ? ' worst' : ''}`, 'data-step': s.id},
            svg('title', {}, description(s)),
            svg('rect', {x: 0, y: y - ROW / 2, width: WIDTH, height: ROW, class: 'hit'}),
            text(LEFT - 10, y + 4, tailOf(s.site, 38), 'row'), svg('rect', {
              x: LEFT,
              y: y - 6,
              width: Math.max(0, to - LEFT),
              height: 12,
              rx: 2,
              class: 'bar'
            }),
            text(to + 6, y + 4, error(s.error), 'hint'));
      }));
};

const legend = (steps) => h('p', {class: 'legend'}, [
  ...new Set(steps.map(stateOf))
].map((state) => h('span', {class: `key loss ${state}`}, STATES[state])));

const badness = (s) => s.error ?? Infinity;

export const sensitivityView = (result) => {
  const {steps} = result;
  const worst = steps.reduce((a, b) => badness(b) > badness(a) ? b : a);
  return [
    note(
        `The relative L2 error that each lossy step causes alone, in the order of the model. ` +
        `All ${plural(steps.length, 'step')} together: ${error(result.error)}.`),
    legend(steps),
    firstOf(steps, 100, bars(scaleOf(steps), worst)),
    note(`The worst: ${worst.site}, ${error(worst.error)}.`),
    h('dl', {class: 'facts'}, h('dt', {}, 'Inputs'), h('dd', {}, result.inputs)),
  ];
};
