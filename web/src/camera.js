// SPDX-License-Identifier: Apache-2.0
import {select} from 'd3-selection';
import {zoom, zoomIdentity} from 'd3-zoom';

const MARGIN = 32;

// Pan and zoom of the drawing.
export class Camera {
  constructor(canvas, world) {
    this.canvas = select(canvas);
    this.zoom = zoom().scaleExtent([0.02, 4]).on('zoom', ({transform}) => {
      this.transform = transform;
      world.setAttribute('transform', transform);
    });
    this.canvas.call(this.zoom).on('dblclick.zoom', null);
    this.transform = zoomIdentity;
    canvas.addEventListener('keydown', (event) => this.key(event));
  }

  key(event) {
    const {key} = event;
    const by = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [
                  0, -60
                ]}[key];
    const {k, x, y} = this.transform;
    if (by)
      this.set(k, x + by[0], y + by[1]);
    else if (key === '+' || key === '=')
      this.scaleBy(1.25);
    else if (key === '-')
      this.scaleBy(0.8);
    else
      return;
    event.preventDefault();
  }

  size() {
    const {clientWidth: width, clientHeight: height} = this.canvas.node();
    return {width, height};
  }

  set(scale, x, y) {
    this.canvas.call(this.zoom.transform, zoomIdentity.translate(x, y).scale(scale));
  }
  scaleBy(factor) {
    this.canvas.call(this.zoom.scaleBy, factor);
  }

  // Shows a box whole, but nothing larger than life.
  fit(box, smallest = 0.02) {
    const {width, height} = this.size();
    if (!width || !height) return;
    const scale = Math.max(
        smallest,
        Math.min(1.1, (width - 2 * MARGIN) / box.width, (height - 2 * MARGIN) / box.height));
    const y = height / 2 - scale * (box.y + box.height / 2);
    this.set(
        scale, width / 2 - scale * (box.x + box.width / 2), Math.max(y, MARGIN - scale * box.y));
  }

  // The same, but large enough to read, from the top.
  start(box) {
    this.fit(box, 0.6);
  }

  // Whether a box is in sight at all.
  sees(box) {
    const {width, height} = this.size(), {k, x, y} = this.transform;
    return x + k * (box.x + box.width) > 0 && x + k * box.x < width &&
        y + k * (box.y + box.height) > 0 && y + k * box.y < height;
  }

  centre(box) {
    const {width, height} = this.size();
    const scale = Math.max(this.transform.k, 0.8);
    this.set(
        scale, width / 2 - scale * (box.x + box.width / 2),
        height / 2 - scale * (box.y + box.height / 2));
  }

  // Moves the drawing so that a box that has moved stays where it was on the screen.
  keep(before, after) {
    const {k, x, y} = this.transform;
    this.set(
        k, x + k * (before.x + before.width / 2 - after.x - after.width / 2),
        y + k * (before.y - after.y));
  }
}
