// SPDX-License-Identifier: Apache-2.0
import {h, svg} from './dom.js';
import {axis, firstOf, note, plot, text, WIDTH} from './plot.js';
import {logScale} from './scale.js';
import {error, known, shortened} from './words.js';

const LEFT = 200, RIGHT = 26, ROW = 26, TOP = 8;

// Errors as parts of the output's largest magnitude, so that all outputs share one axis.
const relative = (output) => ({
  ...output,
  original: output.original_relative,
  current: output.native_error.relative,
  // A tolerance of 0 means that there was none, for example because the bits are equal.
  // null: the output is judged by the error budget.
  bound: output.verdict !== 'fail' && output.native_error.relative_allowed === 0 ?
      undefined :
      output.native_error.relative_allowed ?? undefined,
  fp64: output.fp64_error.relative,
});

const description = (o) =>
    `${o.path} ${o.type}: original ${error(o.original)}, rewritten ${error(o.current)}, ` +
    `${o.bound === undefined ? '' : `allowed ${error(o.bound)}, `}L2 ${
        error(o.l2)}; both models in fp64 differ by ${error(o.fp64)}` +
    `${o.problem ? `. ${o.problem}` : ''}`;

const errorPlot = (rows) => {
  const values =
      rows.flatMap((o) => [o.original, o.current, o.bound]).filter((x) => known(x) && x > 0);
  if (values.length === 0) values.push(1e-8, 1e-6);
  // Errors of zero stand at the left end, a decade below the smallest.
  const scale = logScale(Math.min(...values) / 3, Math.max(...values) * 1.5, LEFT, WIDTH - RIGHT);
  const bottom = TOP + rows.length * ROW;
  const place = (x) => (known(x) ? scale.at(x) : WIDTH - RIGHT / 2);
  return plot(
      bottom + 28, 'Error of each output, relative, on a logarithmic scale',
      axis(scale, TOP, bottom), rows.map((o, i) => {
        const y = TOP + (i + 0.5) * ROW;
        return svg(
            'g',
            {class: o.passed                ? 'passed' :
                 o.verdict === 'not judged' ? 'open' :
                                              'failed'},
            svg('title', {}, description(o)),
            svg('rect', {x: 0, y: y - ROW / 2, width: WIDTH, height: ROW, class: 'hit'}),
            text(LEFT - 12, y + 4, shortened(o.path, 27), 'row'),
            known(o.bound) &&
                svg('line', {x1: LEFT, x2: place(o.bound), y1: y, y2: y, class: 'room'}),
            known(o.bound) &&
                svg('line',
                    {x1: place(o.bound), x2: place(o.bound), y1: y - 9, y2: y + 9, class: 'bound'}),
            svg('circle', {cx: place(o.original), cy: y, r: 5, class: 'original'}),
            svg('circle', {cx: place(o.current), cy: y, r: 4, class: 'current'}));
      }));
};

const legend = (sets) => {
  const bounded =
      sets.some((set) => set.outputs.some((o) => !o.exact && relative(o).bound !== undefined));
  return h(
      'p', {class: 'legend'}, h('span', {class: 'key original'}, 'original'),
      h('span', {class: 'key current'}, 'rewritten'),
      bounded && h('span', {class: 'key bound'}, 'allowed'));
};

const setView = (set) => {
  const numbers = set.outputs.filter((o) => !o.exact).map(relative);
  const exact = set.outputs.filter((o) => o.exact);
  const wrong = set.outputs.filter((o) => !o.passed && o.verdict !== 'not judged');
  return h(
      'div', {class: 'set'}, h('h3', {}, 'Inputs: ', set.inputs),
      numbers.length > 0 && firstOf(numbers, 30, errorPlot),
      exact.length > 0 &&
          note(
              exact.every((o) => o.passed && o.fraction_exceeding === 0) ?
                  `${exact.map((o) => o.path).join(', ')}: equal, bit for bit.` :
                  `Compared bit for bit: ${exact.map((o) => o.path).join(', ')}.`),
      wrong.map((o) => h('p', {class: 'problem'}, `${o.path}: ${o.problem}`)));
};

// What was not judged is neither good nor bad.
const tone = (judged) => judged.passed ? 'good' : judged.verdict === 'not judged' ? 'quiet' : 'bad';

const siteCell = ({site, transformation}) =>
    h('td', {class: 'site'}, h('code', {}, site), h('div', {class: 'quiet'}, transformation));

const stepTable = (steps) =>
    h('table', {},
      h('thead', {},
        h('tr', {},
          ['Step', 'Site', 'L2 error', 'Largest', 'Added', ''].map(
              (t, i) =>
                  h('th', {scope: 'col', class: [0, 2, 3, 4].includes(i) ? 'number' : null}, t)))),
      h('tbody', {},
        steps.map(
            (s) =>
                h('tr', {}, h('td', {class: 'number'}, s.id), siteCell(s),
                  h('td', {class: 'number'}, s.worst.exact ? '\u2013' : error(s.worst.l2)),
                  h('td', {class: 'number'},
                    s.worst.exact ? 'equal' : error(s.worst.native_error.relative)),
                  h('td', {class: 'number'}, error(s.added)),
                  h('td', {class: tone(s.worst)}, s.worst.verdict)))));

const powerTable = (steps) =>
    h('table', {},
      h('thead', {},
        h('tr', {},
          ['Step', 'Site', 'Detected from'].map(
              (t, i) => h('th', {scope: 'col', class: [0, 2].includes(i) ? 'number' : null}, t)))),
      h('tbody', {},
        steps.map(
            (s) =>
                h('tr', {}, h('td', {class: 'number'}, s.id), siteCell(s),
                  h('td', {class: 'number'}, s.detected === null ? 'never' : error(s.detected))))));

const WORDS = {
  'pass': 'Computes what its original did',
  'lossy': 'Differs from its original within the error budget',
  'not judged': 'Not judged: no budget given',
  'cannot tell': 'Cannot tell whether it computes what its original did',
  'fail': 'Differs from its original',
};

export const verifyView = (result) => {
  if (result.missing) return [note(result.missing)];
  return [
    h('p', {class: `verdict ${tone(result)}`}, WORDS[result.verdict]),
    result.verdict === 'cannot tell' && note(`${result.reason}.`),
    result.lossy &&
        note(
            `Lossy steps: ${result.lossy.steps.length}. Relative L2 error: ` +
            `${error(result.lossy.error)}` +
            `${result.lossy.budget ? `, budget ${error(result.lossy.budget)}.` : '.'}`),
    note(
        result.reference === 'fp64' ?
            'Relative errors of both models against the original in double precision.' :
            `Differences from the original in its own precision: ${result.why_not_fp64}`),
    legend(result.sets),
    result.sets.map(setView),
    result.steps.length > 0 &&
        [h('h3', {}, 'Each step alone'), firstOf(result.steps, 30, stepTable)],
    result.power.length > 0 &&
        [
          h('h3', {}, 'The smallest error that would be detected'),
          note(
              'The smallest relative error in the results of a step that verification would ' +
              'detect on these inputs.'),
          firstOf(result.power, 30, powerTable),
        ],
    result.warnings.map((warning) => h('p', {class: 'problem'}, warning)),
    result.random &&
        note(`The model draws random numbers: every run started from seed ${result.seed}.`),
    result.notes.map(note),
  ];
};
