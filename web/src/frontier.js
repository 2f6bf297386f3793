// SPDX-License-Identifier: Apache-2.0
import {h, svg} from './dom.js';
import {axis, note, plot, text, WIDTH} from './plot.js';
import {linearScale, logScale} from './scale.js';
import {amount, duration, error, plural} from './words.js';

const LEFT = 76, RIGHT = 24, TOP = 22, HEIGHT = 220, BOTTOM = TOP + HEIGHT;

// What gains as much with a smaller error makes an attempt pointless.
const frontier = (tried) => {
  const best = [];
  for (const next of [...tried].sort((a, b) => a.error - b.error || b.gain - a.gain))
    if (best.length === 0 || next.gain > best.at(-1).gain) best.push(next);
  return best;
};

export const frontierView = (within) => {
  const {prefer} = within;
  const words = prefer === 'size' ? amount : duration;
  const tried = within.tried.filter((a) => a.error !== null);
  const errors = [...tried.map((a) => a.error), within.budget].filter((x) => x > 0);
  if (tried.length === 0 || errors.length === 0) return [note('No rewrites were tried.')];
  const x = logScale(Math.min(...errors) / 1.5, Math.max(...errors) * 1.5, LEFT, WIDTH - RIGHT);
  const gains = tried.map((a) => a.gain);
  const y = linearScale(
      Math.min(0, ...gains), Math.max(0, ...gains) || 1, BOTTOM, TOP,
      (g) => g === 0 ? '0' :
          g < 0      ? `\u2212${words(-g)}` :
                       words(g));
  const line = frontier(tried);
  const dot = (a) =>
      svg('circle', {
        cx: x.at(a.error),
        cy: y.at(a.gain),
        r: 5,
        class: `attempt ${a.good ? 'good' : 'refused'}${line.includes(a) ? ' best' : ''}`
      },
          svg('title', {},
              `${plural(a.places, 'site')}: error ${error(a.error)}, saves ${words(a.gain)}${
                  a.score === null ? '' : `, score ${a.score}`}${a.good ? '' : '; rejected'}`));
  return [
    note(
        `What tune tried. Rewriting more sites saves more and increases the error. ` +
        `The error of the result is ${error(within.error)} on other inputs` +
        (within.budget === null ? '.' : `; the budget is ${error(within.budget)}.`)),
    h('p', {class: 'legend'}, h('span', {class: 'key good'}, 'accepted'),
      h('span', {class: 'key refused'}, 'rejected')),
    plot(
        BOTTOM + 44, 'Error against what is saved, for each attempt', axis(x, TOP, BOTTOM),
        y.ticks.map(
            ({at, text: label}) => svg(
                'g', {}, svg('line', {x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at, class: 'grid'}),
                text(LEFT - 8, at + 4, label, 'tick end'))),
        within.budget !== null &&
            [
              svg('line', {
                x1: x.at(within.budget),
                x2: x.at(within.budget),
                y1: TOP,
                y2: BOTTOM,
                class: 'same budget'
              }),
              text(x.at(within.budget) + 6, TOP + 10, 'budget', 'hint'),
            ],
        svg('polyline',
            {points: line.map((a) => `${x.at(a.error)},${y.at(a.gain)}`).join(' '), class: 'best'}),
        tried.map(dot), text(WIDTH - RIGHT, BOTTOM + 38, 'error', 'hint end'),
        text(LEFT, TOP - 8, prefer === 'size' ? 'bytes saved' : 'time saved per run', 'hint')),
  ];
};
