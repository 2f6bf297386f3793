// SPDX-License-Identifier: Apache-2.0

// Formats numbers for people.

export const count = (n) => n.toLocaleString('en-US');

export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;

// 1.5 kB, 438 MB
export const amount = (bytes) => {
  if (bytes < 1000) return plural(bytes, 'byte');
  const units = ['kB', 'MB', 'GB', 'TB'];
  let i = -1;
  do {
    bytes /= 1000;
    ++i;
  } while (bytes >= 999.5 && i + 1 < units.length);
  return `${bytes < 9.95 ? bytes.toFixed(1) : Math.round(bytes)} ${units[i]}`;
};

// 1.23 ms
export const duration = (seconds) => {
  const [factor, unit] = seconds < 1e-3 ? [1e6, '\u00b5s'] : seconds < 1 ? [1e3, 'ms'] : [1, 's'];
  return `${(seconds * factor).toPrecision(3)} ${unit}`;
};

// JSON has null for what is not a finite number.
export const known = (x) => x !== null && x !== undefined && Number.isFinite(x);

// 3.2e-7
export const error = (x) => !known(x) ? 'not finite' : x === 0 ? '0' : x.toExponential(1);

// 1.14x; the number may be infinite
export const times = (x) => known(x) ? `${x.toFixed(x < 10 ? 2 : 1)}\u00d7` : 'not finite';

// The CSS class for a speed that bench reports.
export const toneOfSpeed = (speed) => ({faster: 'good', slower: 'bad'})[speed] ?? 'neutral';

export const shortened = (text, longest) =>
    text.length <= longest ? text : `${text.slice(0, longest - 1)}\u2026`;

// For names that differ at their ends.
export const tailOf = (text, longest) =>
    text.length <= longest ? text : `\u2026${text.slice(1 - longest)}`;

// aten.linear.default -> linear, torch.nn.modules.linear.Linear -> Linear
export const shortOp = (op) => {
  const parts = op.split('.');
  if (parts.length === 1) return op;
  const last = parts.at(-1);
  return parts.length === 3 && parts[0] !== 'torch' || parts[1] === 'ops' ? parts.at(-2) : last;
};
