// SPDX-License-Identifier: Apache-2.0
import {h, svg} from './dom.js';
import {axis, firstOf, note, plot, text, WIDTH} from './plot.js';
import {linearScale} from './scale.js';
import {duration, tailOf, times, toneOfSpeed} from './words.js';

const percent = (x) => `${Math.abs((x - 1) * 100).toFixed(1)}%`;

const headline = ({ratio, speed}) => ({
                                       'faster': `${times(ratio)} as fast`,
                                       'slower': `slower: ${times(ratio)} as fast`,
                                       'no difference': 'No measurable difference',
                                       'unstable': 'Too unstable to decide',
                                     })[speed] ??
    speed;

// Always with 1 in it, where both forms take the same time.
const ratioScale = (values, from) => {
  const low = Math.min(1, ...values), high = Math.max(1, ...values);
  const margin = Math.max((high - low) * 0.08, 0.005);
  return linearScale(
      low - margin, high + margin, from, WIDTH - 20,
      (x, step) => `${
          x.toFixed(
              step < 0.01    ? 3 :
                  step < 0.1 ? 2 :
                  step < 1   ? 1 :
                               0)}\u00d7`);
};

const same = (scale, top, bottom) =>
    svg('line', {x1: scale.at(1), x2: scale.at(1), y1: top, y2: bottom, class: 'same'});

// Each round is a dot; those that would cover each other are stacked.
const roundsPlot = ({ratio, low, high, rounds}) => {
  const scale = ratioScale([low, high, ...rounds], 20);
  const taken = new Map();
  const dots = rounds.map((r) => {
    const x = scale.at(r), column = Math.round(x / 7);
    const level = taken.get(column) ?? 0;
    taken.set(column, level + 1);
    return {x, level, r};
  });
  const tallest = Math.max(1, ...taken.values());
  const gap = Math.min(9, 90 / tallest), top = 14, bottom = top + 18 + tallest * gap;
  return plot(
      bottom + 46, `Ratio of each round; interval ${times(low)} to ${times(high)}`, svg('rect', {
        x: scale.at(low),
        width: Math.max(1, scale.at(high) - scale.at(low)),
        y: top,
        height: bottom - top,
        class: 'interval'
      }),
      axis(scale, top, bottom), same(scale, top, bottom),
      svg('line', {x1: scale.at(ratio), x2: scale.at(ratio), y1: top, y2: bottom, class: 'median'}),
      dots.map(
          ({x, level, r}) =>
              svg('circle', {cx: x, cy: bottom - 8 - level * gap, r: 3.5, class: 'round'},
                  svg('title', {}, times(r)))),
      text(20, bottom + 38, 'slower', 'hint'),
      text(WIDTH - 20, bottom + 38, 'faster than the original', 'hint end'));
};

// Quartiles of the time of one run, from zero, so that lengths compare.
const timePlot = (rows) => {
  const left = 110;
  const scale = linearScale(
      0, Math.max(...rows.map((r) => r.timing.high)) * 1.05, left, WIDTH - 20,
      (x) => (x === 0 ? '0' : duration(x)));
  const bottom = 8 + rows.length * 34;
  return plot(
      bottom + 26, 'Time per run', axis(scale, 8, bottom), rows.map(({name, kind, timing}, i) => {
        const y = 8 + i * 34 + 17;
        return svg(
            'g', {class: kind},
            svg('title', {},
                `${name}: median ${duration(timing.median)}, half of ${timing.runs} runs between ${
                    duration(timing.low)} and ${duration(timing.high)}`),
            text(left - 12, y + 4, name, 'row'), svg('rect', {
              x: left,
              y: y - 9,
              width: scale.at(timing.median) - left,
              height: 18,
              rx: 3,
              class: 'bar'
            }),
            svg('line', {
              x1: scale.at(timing.low),
              x2: scale.at(timing.high),
              y1: y,
              y2: y,
              class: 'whisker'
            }),
            [timing.low, timing.high].map(
                (t) => svg(
                    'line',
                    {x1: scale.at(t), x2: scale.at(t), y1: y - 5, y2: y + 5, class: 'whisker'})),
            text(left + 8, y + 4, duration(timing.median), 'inside'));
      }));
};

const stepPlot = (steps) => {
  const left = 250, row = 24, bottom = 8 + steps.length * row;
  const scale = ratioScale(steps.flatMap(({contest}) => [contest.low, contest.high]), left);
  return plot(
      bottom + 28, 'Effect of each step alone', axis(scale, 8, bottom), same(scale, 8, bottom),
      steps.map(({id, transformation, site, contest}, i) => {
        const y = 8 + (i + 0.5) * row, x = scale.at(contest.ratio);
        return svg(
            'g', {class: toneOfSpeed(contest.speed)},
            svg('title', {},
                `${id} ${transformation} ${site}: ${times(contest.ratio)} (${
                    times(contest.low)} to ${times(contest.high)}), ${contest.speed}`),
            svg('rect', {x: 0, y: y - row / 2, width: WIDTH, height: row, class: 'hit'}),
            text(left - 12, y + 4, `${id}  ${tailOf(site, 33)}`, 'row'), svg('rect', {
              x: Math.min(x, scale.at(1)),
              y: y - 6,
              width: Math.max(1, Math.abs(x - scale.at(1))),
              height: 12,
              rx: 2,
              class: 'bar'
            }),
            svg('line', {
              x1: scale.at(contest.low),
              x2: scale.at(contest.high),
              y1: y,
              y2: y,
              class: 'whisker'
            }));
      }));
};

export const benchView = (result) => {
  if (result.missing) return [note(result.missing)];
  const {contest} = result;
  return [
    h('p', {class: `verdict ${toneOfSpeed(contest.speed)}`}, headline(contest)),
    note(
        `${times(contest.low)} to ${times(contest.high)} with 99% confidence, from ${
            contest.rounds.length} rounds in which both forms ran in turn. ` +
        (contest.speed === 'no difference' ?
             `A difference, if there is one, is below about ${
                 percent(contest.low < 1 / contest.high ? contest.low : contest.high)}.` :
             '')),
    contest.rounds.length > 0 && [h('h3', {}, 'Speed in each round'), roundsPlot(contest)],
    h('h3', {}, 'Time per run'),
    timePlot([
      {name: 'original', kind: 'was', timing: contest.before},
      {name: 'now', kind: 'now', timing: contest.after}
    ]),
    result.steps.length > 0 &&
        [h('h3', {}, 'Effect of each step alone'), firstOf(result.steps, 40, stepPlot)],
    h('dl', {class: 'facts'},
      [
        ['Inputs', result.inputs], ['Device', result.device], ['Machine', result.machine],
        ['Threads', `${result.threads}`]
      ].filter(([, value]) => value)
          .map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
    result.notes.map(note),
  ];
};
