// SPDX-License-Identifier: Apache-2.0
import {labelOf, stateOf} from './boxes.js';
import {svg} from './dom.js';

// Turns a layout into SVG. Which form is shown is a matter of style alone: everything of both forms
// is in the drawing, in its place.

const FORMS = {
  1: 'removed',
  2: 'added',
  3: 'same'
};

const curve = (points) => {
  const at = ([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`;
  if (points.length < 3) return `M${points.map(at).join('L')}`;
  let path = `M${at(points[0])}`;
  for (let i = 1; i + 1 < points.length; ++i) {
    const [x, y] = points[i], [nx, ny] = points[i + 1];
    const end = i + 2 === points.length ? [nx, ny] : [(x + nx) / 2, (y + ny) / 2];
    path += `Q${at([x, y])} ${at(end)}`;
  }
  return path;
};

const edgeView = (edge, layout) =>
    svg('path', {
      class: `edge ${FORMS[edge.of]}`,
      'data-from': edge.from.id,
      'data-to': edge.to.id,
      d: curve(layout.points(edge)),
      'stroke-width': Math.min(5, 1.3 + Math.log2(edge.count) * 0.5).toFixed(2),
      'marker-end': `url(#arrow-${FORMS[edge.of]})`,
    },
        edge.count > 1 && svg('title', {}, `${edge.count} edges`));

const SIGNS = {
  added: '+',
  removed: '\u2212',
  changed: '~'
};

const texts = (label, width) => {
  const middle = width / 2;
  const title = (text, className) =>
      svg('text', {x: middle, y: 19, class: `title ${className}`}, text);
  return [
    ...(label.titles ?
            [
              title(label.title, 'in-both'), title(label.titles.before, 'in-before'),
              title(label.titles.after, 'in-after')
            ] :
            [title(label.title, '')]),
    label.detail && svg('text', {x: middle, y: 34, class: 'summary'}, label.detail),
    svg('text', {x: middle, y: label.detail ? 49 : 35, class: 'summary'}, label.summary),
  ];
};

// How much of a group is new, gone or changed, as a line along its lower edge.
const shares = ({counts, start, end}, {width, height}) => {
  let x = 10;
  const room = width - 20;
  return ['added', 'removed', 'changed'].filter((state) => counts[state] > 0).map((state) => {
    const length = Math.max(3, room * counts[state] / (end - start));
    const bar =
        svg('rect', {x, y: height - 4, width: length, height: 3, rx: 1.5, class: `share ${state}`});
    x += length;
    return bar;
  });
};

const pressable = (item, attributes, press, ...children) =>
    svg('g', {
      tabindex: 0,
      role: 'button',
      'data-item': item.id,
      ...attributes,
      onclick: () => press(item),
      onkeydown: (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        press(item);
      },
    },
        ...children);

const itemView = (item, box, nodes, press) => {
  const label = labelOf(item, nodes), state = stateOf(item);
  const what = item.children ? `module ${item.path || item.label}, closed` :
                               `${label.title}, ${label.summary}`;
  return pressable(
      item, {
        class: `item ${item.children ? 'group' : 'node'} ${state} ${
            !item.children && nodes[item.node].op === 'weight' ? 'weight' : ''}`,
        transform: `translate(${box.x.toFixed(1)},${box.y.toFixed(1)})`,
        'aria-label': `${what}${state === 'same' || state === 'mixed' ? '' : `, ${state}`}`,
        'aria-expanded': item.children ? 'false' : null,
      },
      press,
      item.children &&
          svg('rect', {x: 4, y: 4, width: box.width, height: box.height, rx: 9, class: 'behind'}),
      svg('rect', {width: box.width, height: box.height, rx: item.children ? 9 : 7, class: 'box'}),
      texts(label, box.width), item.children && shares(item, box),
      SIGNS[state] &&
          svg('g', {class: 'badge', transform: `translate(${box.width - 3},3)`},
              svg('circle', {r: 8}), svg('text', {y: 4}, SIGNS[state])),
      svg('title', {}, item.children ? item.path || item.label : nodes[item.node].label));
};

// The frame of an open group; its head closes it.
const frameView = (item, box, press) =>
    svg('g', {
      class: `frame ${stateOf(item)}`,
      transform: `translate(${box.x.toFixed(1)},${box.y.toFixed(1)})`,
    },
        svg('rect', {width: box.width, height: box.height, rx: 12, class: 'area'}),
        pressable(
            item, {
              class: 'head',
              'aria-expanded': 'true',
              'aria-label': `module ${item.path || item.label}, open`
            },
            press, svg('rect', {x: 0, y: 0, width: box.width, height: 30, rx: 12, class: 'hit'}),
            svg('text', {x: 14, y: 20, class: 'title'}, `\u2212  ${item.label}`)));

export const draw = (seen, layout, nodes, press) => {
  const outer = seen.open.filter((group) => group.parent).reverse();
  return [
    svg('g', {class: 'frames'},
        outer.map((group) => frameView(group, layout.boxes.get(group), press))),
    svg('g', {class: 'edges'}, seen.edges.map((edge) => edgeView(edge, layout))),
    svg('g', {class: 'items'},
        seen.drawn.map((item) => itemView(item, layout.boxes.get(item), nodes, press))),
  ];
};

export const arrows = () =>
    svg('defs', {},
        [...Object.values(FORMS), 'near'].map(
            (form) =>
                svg('marker', {
                  id: `arrow-${form}`,
                  class: `arrow ${form}`,
                  viewBox: '0 0 8 8',
                  refX: 7,
                  refY: 4,
                  markerWidth: 8,
                  markerHeight: 8,
                  markerUnits: 'userSpaceOnUse',
                  orient: 'auto',
                },
                    svg('path', {d: 'M0,0.5L8,4L0,7.5Z'}))));
