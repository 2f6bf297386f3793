// SPDX-License-Identifier: Apache-2.0

// What a person calls a node, which is how sites are named: `encoder.0.up` for the one operator of
// a layer, `encoder.0.attention.softmax` for one of several operators of a module. A weight has the
// name of its tensor. A node outside of all modules has its own name.

const isCall = (node) => !['weight', 'input', 'output'].includes(node.op);

// The paths of all modules that have other modules inside.
const parentsOf = (nodes) => {
  const seen = new Set(), parents = new Set();
  for (const {path} of nodes) {
    if (seen.has(path)) continue;
    seen.add(path);
    for (let dot = path.lastIndexOf('.'); dot > 0; dot = path.lastIndexOf('.', dot - 1)) {
      const parent = path.slice(0, dot);
      if (parents.has(parent)) break;
      parents.add(parent);
    }
  }
  return parents;
};

export const labelNodes = (nodes) => {
  const parents = parentsOf(nodes), calls = new Map();
  const inOriginal = (node) => isCall(node) && node.before !== null;
  for (const node of nodes)
    if (inOriginal(node)) calls.set(node.path, (calls.get(node.path) ?? 0) + 1);
  const isLayer = (node) =>
      inOriginal(node) && calls.get(node.path) === 1 && !parents.has(node.path);
  for (const node of nodes) {
    if (!node.path)
      node.label ??= node.name;
    else
      node.label ??= isLayer(node) ? node.path : `${node.path}.${node.name}`;
  }
};
