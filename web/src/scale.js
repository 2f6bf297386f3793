// SPDX-License-Identifier: Apache-2.0

// Maps values to places on an axis, and says where its ticks are.

export const logScale = (low, high, from, to) => {
  const a = Math.floor(Math.log10(low)), b = Math.max(a + 1, Math.ceil(Math.log10(high)));
  const at = (x) => from + (Math.log10(Math.max(x, 10 ** a)) - a) / (b - a) * (to - from);
  const every = Math.ceil((b - a) / 8);
  const ticks = [];
  for (let power = a; power <= b; power += every)
    ticks.push({at: at(10 ** power), text: power === 0 ? '1' : `1e${power}`});
  return {at, ticks};
};

export const linearScale = (low, high, from, to, text) => {
  const span = high - low || 1;
  const rough = span / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const at = (x) => from + (x - low) / span * (to - from);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    ticks.push({at: at(i * step), text: text(i * step, step)});
  return {at, ticks};
};
