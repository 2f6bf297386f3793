// SPDX-License-Identifier: Apache-2.0
export const byId = (id) => document.getElementById(id);

const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else
      element.setAttribute(name, value === true ? '' : value);
  }
  element.append(
      ...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
};

// An element with attributes (onclick and the like are listeners) and children. Texts stay texts:
// nothing that a model says is ever read as HTML.
export const h = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
