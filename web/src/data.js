// SPDX-License-Identifier: Apache-2.0
import {labelNodes} from './labels.js';
import {shortOp} from './words.js';

// What the library wrote (src/report/data.cpp), with the numbers of texts replaced by the texts.

const stateOf = (before, after) => before < 0 ? 'added' :
    after < 0                                 ? 'removed' :
    before === after                          ? 'same' :
                                                'changed';

const pairs = (numbers, text) => {
  const lines = [];
  for (let i = 0; i < numbers.length; i += 2)
    lines.push({before: text(numbers[i]), after: text(numbers[i + 1])});
  return lines;
};

// Every edge of both forms once; of: 1 in the original, 2 now, 3 in both.
const edgesOf = (nodes) => {
  const from = [], to = [], of = [];
  nodes.forEach((node, i) => {
    const was = node.before === null ? [] : node.inputsBefore;
    const before = new Set(was), now = new Set(node.inputs);
    for (const input of new Set([...was, ...node.inputs])) {
      if (input < 0) continue;
      from.push(input);
      to.push(i);
      of.push((before.has(input) ? 1 : 0) | (now.has(input) ? 2 : 0));
    }
  });
  return {from: Int32Array.from(from), to: Int32Array.from(to), of: Uint8Array.from(of)};
};

export const readData = (json) => {
  const raw = JSON.parse(json);
  const text = (i) => (i < 0 ? null : raw.strings[i]);
  const columns = raw.nodes;

  const nodes = columns.name.map((name, i) => ({
                                   index: i,
                                   name: text(name),
                                   label: text(columns.label[i] ?? -1),
                                   op: shortOp(text(columns.op[i])),
                                   opBefore: shortOp(text(columns.op_before[i] ?? columns.op[i])),
                                   target: text(columns.op[i]),
                                   path: text(columns.path[i]),
                                   before: text(columns.before[i]),
                                   after: text(columns.after[i]),
                                   state: stateOf(columns.before[i], columns.after[i]),
                                   inputs: columns.inputs[i],
                                   inputsBefore: columns.inputs_before[i] ?? columns.inputs[i],
                                   steps: [],
                                 }));

  labelNodes(nodes);

  const steps = raw.steps.map((step) => ({
                                ...step,
                                transformation: text(step.transformation),
                                signature: text(step.signature),
                                lines: pairs(step.lines, text),
                              }));
  for (const step of steps)
    for (const node of step.nodes) nodes[node].steps.push(step);

  return {...raw, strings: null, nodes, steps, edges: edgesOf(nodes)};
};
