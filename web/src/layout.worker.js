// SPDX-License-Identifier: Apache-2.0

// Lays out the insides of open groups, innermost first, each by itself with dagre.
//
// Gets {request, groups: [{id, items: [{id, width, height, group}], edges: [[from, to]], padding}]}
// and answers with the size of each group and the places of its items and edges in it.

import dagre from '@dagrejs/dagre';

const SETTINGS = {
  rankdir: 'TB',
  nodesep: 22,
  edgesep: 14,
  ranksep: 40,
  marginx: 0,
  marginy: 0
};
const GAP = 16;

// Things that nothing connects would all stand in one long row.
const grid = (items, sizeOf, top) => {
  const area = items.reduce(
      (sum, item) => sum + (sizeOf(item).width + GAP) * (sizeOf(item).height + GAP), 0);
  const widest = Math.max(Math.sqrt(area * 2), ...items.map((item) => sizeOf(item).width));
  const places = {};
  let x = 0, y = top, height = 0, width = 0;
  for (const item of items) {
    const size = sizeOf(item);
    if (x > 0 && x + size.width > widest) {
      x = 0;
      y += height + GAP;
      height = 0;
    }
    places[item.id] = [x + size.width / 2, y + size.height / 2];
    x += size.width + GAP;
    width = Math.max(width, x - GAP);
    height = Math.max(height, size.height);
  }
  return {places, width, height: y + height};
};

const flow = (items, edges, sizeOf) => {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({...SETTINGS});
  graph.setDefaultEdgeLabel(() => ({}));
  for (const item of items) graph.setNode(`${item.id}`, {...sizeOf(item)});
  for (const [from, to] of edges) graph.setEdge(`${from}`, `${to}`);
  dagre.layout(graph);
  const places = {}, routes = {};
  for (const item of items) {
    const {x, y} = graph.node(`${item.id}`);
    places[item.id] = [x, y];
  }
  for (const [from, to] of edges)
    routes[`${from}>${to}`] = graph.edge(`${from}`, `${to}`).points.map(({x, y}) => [x, y]);
  const {width, height} = graph.graph();
  return {places, routes, width, height};
};

const layOut = ({items, edges}, sizeOf) => {
  const connected = new Set(edges.flat());
  const alone = items.filter((item) => !connected.has(item.id));
  const rest = items.filter((item) => connected.has(item.id));
  const below =
      rest.length ? flow(rest, edges, sizeOf) : {places: {}, routes: {}, width: 0, height: 0};
  if (alone.length === 0) return below;
  const above = grid(alone, sizeOf, 0);
  const drop = rest.length ? above.height + 2 * GAP : above.height;
  const width = Math.max(above.width, below.width);
  const places = {}, routes = {};
  for (const [id, [x, y]] of Object.entries(above.places))
    places[id] = [x + (width - above.width) / 2, y];
  const right = (width - below.width) / 2;
  for (const [id, [x, y]] of Object.entries(below.places)) places[id] = [x + right, y + drop];
  for (const [key, points] of Object.entries(below.routes))
    routes[key] = points.map(([x, y]) => [x + right, y + drop]);
  return {places, routes, width, height: drop + below.height};
};

// Opening one group leaves all but those around it as they are.
const known = new Map();

onmessage = ({data: {request, groups}}) => {
  const sizes = new Map(), answers = [];
  for (const group of groups) {
    const sizeOf = (item) => sizes.get(item.id) ?? {width: item.width, height: item.height};
    const key = JSON.stringify([group.items.map((item) => [item.id, sizeOf(item)]), group.edges]);
    let layout = known.get(key);
    if (!layout) {
      layout = layOut(group, sizeOf);
      known.set(key, layout);
    }
    const {top, side, least} = group.padding;
    const width = Math.max(layout.width + 2 * side, least);
    const height = layout.height + top + side;
    sizes.set(group.id, {width, height});
    answers.push({
      id: group.id,
      width,
      height,
      top,
      side: (width - layout.width) / 2,
      places: layout.places,
      routes: layout.routes,
    });
  }
  postMessage({request, groups: answers});
};
