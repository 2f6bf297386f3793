// SPDX-License-Identifier: Apache-2.0
import {count} from './words.js';

// The graph's nodes grouped by the modules they belong to.
//
// An item is a group or a leaf (one node). Groups hold items in the order of execution; one that
// has too many is divided into parts, so that whatever is opened stays small enough to lay out.

const MOST_CHILDREN = 30, SMALLEST_PART = 15;

const newGroup = (label, path, parent) =>
    ({label, path, parent, children: [], open: false, part: false});

// Weights stand before all calls in a graph, so the order comes from the calls.
const firstCall = (item, nodes) => {
  if (item.node !== undefined) return nodes[item.node].op === 'weight' ? Infinity : item.node;
  return item.children.reduce((first, child) => Math.min(first, child.first), Infinity);
};

const sort = (group, nodes) => {
  for (const child of group.children) {
    if (child.children) sort(child, nodes);
    child.first = firstCall(child, nodes);
  }
  // Stable: weights, which are all infinite, keep their order, and come first.
  const at = (item) => (item.first === Infinity ? -1 : item.first);
  group.children.sort((a, b) => at(a) - at(b));
};

// A group of one thing says no more than the thing.
const simplify = (group) => {
  group.children = group.children.map((child) => {
    if (!child.children) return child;
    simplify(child);
    if (child.children.length !== 1) return child;
    const [only] = child.children;
    if (only.children) only.label = `${child.label}.${only.label}`;
    only.parent = group;
    return only;
  });
};

const newPart = (items, first, total, parent) => {
  const part = newGroup(
      `${count(first + 1)}\u2013${count(first + items.length)} of ${count(total)}`, parent.path,
      parent);
  Object.assign(part, {part: true, children: items, offset: first, total});
  for (const item of items) item.parent = part;
  return part;
};

// Nodes of the group's own that stand between its modules become a part, and the modules stay.
const gather = (group) => {
  const all = group.children, total = all.filter((item) => !item.children).length;
  const gathered = [];
  let seen = 0;
  for (let i = 0; i < all.length;) {
    let end = i;
    while (end < all.length && !all[end].children) ++end;
    const run = all.slice(i, end);
    if (run.length > SMALLEST_PART)
      gathered.push(newPart(run, seen, total, group));
    else
      gathered.push(...run);
    if (end < all.length) gathered.push(all[end]);
    seen += run.length;
    i = end + 1;
  }
  group.children = gathered;
};

const divide = (group) => {
  if (group.children.length > MOST_CHILDREN && group.children.some((item) => item.children))
    gather(group);
  const all = group.children;
  if (all.length > MOST_CHILDREN) {
    const size = Math.max(SMALLEST_PART, Math.ceil(all.length / MOST_CHILDREN));
    const first = group.offset ?? 0, total = group.total ?? all.length;
    group.children = [];
    for (let i = 0; i < all.length; i += size)
      group.children.push(newPart(all.slice(i, i + size), first + i, total, group));
  }
  for (const child of group.children)
    if (child.children) divide(child);
};

// Numbers items and nodes so that those of a group are next to each other.
const number = (tree, nodes) => {
  tree.items = [];
  tree.order = new Int32Array(nodes.length);
  tree.leaves = new Array(nodes.length);
  let next = 0;
  const visit = (item, depth) => {
    item.id = tree.items.length;
    item.depth = depth;
    item.start = next;
    tree.items.push(item);
    if (item.node !== undefined) {
      tree.order[next++] = item.node;
      tree.leaves[item.node] = item;
    } else {
      for (const child of item.children) visit(child, depth + 1);
    }
    item.end = next;
    item.counts = {same: 0, added: 0, removed: 0, changed: 0};
    for (let i = item.start; i < item.end; ++i) ++item.counts[nodes[tree.order[i]].state];
  };
  visit(tree.root, 0);
};

export const buildTree = (nodes) => {
  const root = newGroup('model', '', null);
  const groups = new Map([['', root]]);
  const groupOf = (path) => {
    const known = groups.get(path);
    if (known) return known;
    const dot = path.lastIndexOf('.');
    const parent = groupOf(dot < 0 ? '' : path.slice(0, dot));
    const group = newGroup(path.slice(dot + 1), path, parent);
    parent.children.push(group);
    groups.set(path, group);
    return group;
  };
  for (const node of nodes) {
    const parent = groupOf(node.path);
    parent.children.push({node: node.index, parent});
  }
  sort(root, nodes);
  simplify(root);
  divide(root);
  root.open = true;
  const tree = {root};
  number(tree, nodes);
  return tree;
};

export const ancestors = (item) => {
  const all = [];
  for (let at = item.parent; at; at = at.parent) all.push(at);
  return all;
};
