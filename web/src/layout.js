// SPDX-License-Identifier: Apache-2.0
import code from './layout.worker.js?text';

// Sends what is open to the worker and turns its answer into places on the drawing.

const PADDING = {
  top: 40,
  side: 18
};

export class Layout {
  constructor() {
    const url = URL.createObjectURL(new Blob([code], {type: 'text/javascript'}));
    this.worker = new Worker(url);
    this.worker.onmessage = ({data}) => this.answered(data);
    this.worker.onerror = (event) => this.waiting?.reject(new Error(event.message));
    this.request = 0;
  }

  // Resolves to {boxes: Map of item to {x, y, width, height}, routes(edge)}; to null if something
  // newer was asked for meanwhile.
  compute(seen, sizeOf) {
    this.waiting?.resolve(null);
    const open = new Set(seen.open);
    const groups = seen.open.map(
        (group) => ({
          id: group.id,
          padding: {
            ...PADDING,
            least: sizeOf(group).width,
            ...(group.parent ? {} : {top: 0, side: 0, least: 0})
          },
          items: group.children.map(
              (item) => (open.has(item) ? {id: item.id} : {id: item.id, ...sizeOf(item)})),
          edges: [...seen.inGroup.get(group).values()],
        }));
    const request = ++this.request;
    return new Promise((resolve, reject) => {
      this.waiting = {resolve, reject, seen, sizeOf};
      this.worker.postMessage({request, groups});
    });
  }

  answered({request, groups}) {
    if (request !== this.request) return;
    const {resolve, seen, sizeOf} = this.waiting;
    this.waiting = null;
    resolve(place(seen, sizeOf, new Map(groups.map((group) => [group.id, group]))));
  }
}

const place = (seen, sizeOf, answers) => {
  const boxes = new Map(), routes = new Map();
  const visit = (item, x, y) => {
    const answer = answers.get(item.id);
    if (!answer) {
      boxes.set(item, {x, y, ...sizeOf(item)});
      return;
    }
    boxes.set(item, {x, y, width: answer.width, height: answer.height});
    const left = x + answer.side, top = y + answer.top;
    for (const [key, points] of Object.entries(answer.routes))
      routes.set(key, points.map(([px, py]) => [px + left, py + top]));
    for (const child of item.children) {
      const size = answers.get(child.id) ?? sizeOf(child);
      const [cx, cy] = answer.places[child.id];
      visit(child, left + cx - size.width / 2, top + cy - size.height / 2);
    }
  };
  visit(seen.open.at(-1), 0, 0);
  return {boxes, points: (edge) => pointsOf(edge, routes.get(edge.route), boxes)};
};

// From the item itself to where its outermost group is left, along the route between the groups,
// and from there to the other item.
const pointsOf = (edge, route, boxes) => {
  const [from, to] = edge.route.split('>').map(Number);
  const points = [...route];
  if (edge.from.id !== from) {
    const box = boxes.get(edge.from);
    points.unshift([box.x + box.width / 2, box.y + box.height]);
  }
  if (edge.to.id !== to) {
    const box = boxes.get(edge.to);
    points.push([box.x + box.width / 2, box.y]);
  }
  return points;
};
