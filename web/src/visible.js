// SPDX-License-Identifier: Apache-2.0

// What there is to draw: the items that no closed group hides, and the edges between them, merged.

// For each node the item that stands for it: itself, or the outermost closed group around it.
const representatives = (tree) => {
  const ids = new Int32Array(tree.order.length), drawn = [], open = [];
  const visit = (item) => {
    if (item.children && item.open) {
      for (const child of item.children) visit(child);
      open.push(item);  // inner ones first
      return;
    }
    drawn.push(item);
    for (let i = item.start; i < item.end; ++i) ids[tree.order[i]] = item.id;
  };
  visit(tree.root);
  return {ids, drawn, open};
};

// The innermost group that holds both, and the two of its children that hold one each.
const meeting = (a, b) => {
  while (a.depth > b.depth) a = a.parent;
  while (b.depth > a.depth) b = b.parent;
  while (a.parent !== b.parent) {
    a = a.parent;
    b = b.parent;
  }
  return {group: a.parent, from: a, to: b};
};

export const visible = (tree, edges) => {
  const {ids, drawn, open} = representatives(tree);
  const merged = new Map(), total = tree.items.length;
  for (let i = 0; i < edges.from.length; ++i) {
    const a = ids[edges.from[i]], b = ids[edges.to[i]];
    if (a === b) continue;
    const key = a * total + b;
    const known = merged.get(key);
    if (known) {
      known.of |= edges.of[i];
      ++known.count;
    } else {
      merged.set(key, {from: tree.items[a], to: tree.items[b], of: edges.of[i], count: 1});
    }
  }

  // An edge is laid out in the group where its ends part ways.
  const inGroup = new Map(open.map((group) => [group, new Map()]));
  const all = [...merged.values()];
  for (const edge of all) {
    const meet = meeting(edge.from, edge.to);
    edge.group = meet.group;
    edge.route = `${meet.from.id}>${meet.to.id}`;
    inGroup.get(meet.group).set(edge.route, [meet.from.id, meet.to.id]);
  }
  return {drawn, open, edges: all, inGroup};
};
