// SPDX-License-Identifier: Apache-2.0
import {sizes} from './boxes.js';
import {Camera} from './camera.js';
import {nodeDetails} from './details.js';
import {h, svg} from './dom.js';
import {arrows, draw} from './draw.js';
import {Layout} from './layout.js';
import {searchBox} from './search.js';
import {toolbar} from './toolbar.js';
import {ancestors, buildTree} from './tree.js';
import {visible} from './visible.js';

// More than this is not opened at one stroke.
const MOST_OPENED = 300;

const union = (boxes) => {
  const x = Math.min(...boxes.map((b) => b.x)), y = Math.min(...boxes.map((b) => b.y));
  return {
    x,
    y,
    width: Math.max(...boxes.map((b) => b.x + b.width)) - x,
    height: Math.max(...boxes.map((b) => b.y + b.height)) - y,
  };
};

// The graph: modules that open and close, drawn in both forms at once.
export class GraphView {
  constructor(section, data) {
    this.data = data;
    this.tree = buildTree(data.nodes);
    this.sizeOf = sizes(data.nodes);
    this.layout = new Layout();
    this.marked = new Set();
    this.next = 0;
    this.onStep = () => {};

    this.world = svg('g');
    this.canvas =
        svg('svg', {
          class: 'canvas',
          'data-form': 'both',
          tabindex: 0,
          role: 'group',
          'aria-label': 'The graph: arrow keys move it, plus and minus zoom'
        },
            arrows(), this.world);
    this.status = h('p', {class: 'status quiet', role: 'status'});
    this.details = h('aside', {class: 'details', 'aria-label': 'The chosen node'});
    this.showHint();
    section.append(
        toolbar(searchBox(data.nodes, (node) => this.goTo(node)), this),
        h('div', {class: 'stage'}, h('div', {class: 'sheet'}, this.canvas, this.status),
          this.details));
    this.camera = new Camera(this.canvas, this.world);
    // Who walks through the graph with the Tab key sees where they are.
    this.world.addEventListener('focusin', ({target}) => {
      const box = this.places.boxes.get(this.tree.items[target.dataset.item]);
      if (box && !this.camera.sees(box)) this.camera.centre(box);
    });
  }

  // The drawing is made when it is first looked at.
  shown() {
    if (!this.drawing) this.update(() => this.start());
  }

  async update(then) {
    const seen = visible(this.tree, this.data.edges);
    this.canvas.classList.add('busy');
    let places;
    this.drawing = this.layout.compute(seen, this.sizeOf);
    try {
      places = await this.drawing;
    } catch (problem) {
      this.status.textContent = `The graph could not be laid out: ${problem.message}`;
      return;
    }
    if (!places) return;
    const focused = document.activeElement?.closest?.('[data-item]')?.dataset.item;
    const before = this.places;
    this.places = places;
    this.world.replaceChildren(...draw(seen, places, this.data.nodes, (item) => this.press(item)));
    this.canvas.classList.remove('busy');
    this.emphasise();
    then?.(before);
    if (focused) this.world.querySelector(`[data-item="${focused}"]`)?.focus({preventScroll: true});
  }

  press(item) {
    if (item.children)
      this.toggle(item);
    else
      this.choose(this.data.nodes[item.node]);
  }

  toggle(item) {
    item.open = !item.open;
    this.update((before) => this.camera.keep(before.boxes.get(item), this.places.boxes.get(item)));
  }

  // ---- the chosen node

  choose(node) {
    this.chosen = node;
    this.details.replaceChildren(...nodeDetails(node, this.data, {
                                   goTo: (other) => this.goTo(other),
                                   openStep: (step) => this.onStep(step),
                                 })
                                     .flat(Infinity)
                                     .filter(Boolean));
    this.details.scrollTop = 0;
    this.emphasise();
  }

  showHint() {
    this.details.replaceChildren(
        h('p', {class: 'quiet'},
          'Click a module to open it, its title to close it, and a node to see its details. ' +
              'Drag to move, scroll to zoom.'));
  }

  // What a node is drawn as now: itself, or the closed group that hides it.
  drawnAs(node) {
    const leaf = this.tree.leaves[node.index];
    return ancestors(leaf).filter((group) => !group.open).at(-1) ?? leaf;
  }

  emphasise() {
    const items = new Set([...this.marked].map((index) => this.drawnAs(this.data.nodes[index]).id));
    const chosen = this.chosen && this.drawnAs(this.chosen).id;
    for (const element of this.world.querySelectorAll('.item')) {
      const id = Number(element.dataset.item);
      element.classList.toggle('marked', items.has(id));
      element.classList.toggle('chosen', id === chosen);
    }
    for (const edge of this.world.querySelectorAll('.edge'))
      edge.classList.toggle(
          'near', Number(edge.dataset.from) === chosen || Number(edge.dataset.to) === chosen);
  }

  // ---- finding things

  open(nodes) {
    let opened = 0;
    for (const node of nodes) {
      if (opened >= MOST_OPENED) return;
      for (const group of ancestors(this.tree.leaves[node.index])) {
        if (!group.open) opened += group.children.length;
        group.open = true;
      }
    }
  }

  goTo(node) {
    this.open([node]);
    this.choose(node);
    this.update(() => this.camera.centre(this.places.boxes.get(this.drawnAs(node))));
  }

  showNodes(indices) {
    const nodes = indices.map((i) => this.data.nodes[i]);
    this.marked = new Set(indices);
    this.open(nodes);
    this.choose(nodes.find((node) => node.state === 'changed') ?? nodes[0]);
    this.update(
        () =>
            this.camera.fit(union(nodes.map((node) => this.places.boxes.get(this.drawnAs(node))))));
  }

  // One step after the other: what differs at once can be far apart.
  nextStep() {
    const steps = this.data.steps.filter((step) => step.nodes.length > 0);
    if (steps.length === 0) {
      this.status.textContent = 'No node differs from the original.';
      return;
    }
    const step = steps[this.next++ % steps.length];
    this.showNodes(step.nodes);
    this.status.textContent = `Step ${step.id}: ${step.transformation} at ${step.site}`;
  }

  // ---- the view

  closeAll() {
    for (const item of this.tree.items)
      if (item.children) item.open = item === this.tree.root;
    this.marked.clear();
    this.chosen = null;
    this.showHint();
    this.status.textContent = '';
    this.next = 0;
    this.update(() => this.start());
  }

  start() {
    this.camera.start(this.places.boxes.get(this.tree.root));
  }
  showForm(form) {
    this.canvas.dataset.form = form;
  }
  zoomBy(factor) {
    this.camera.scaleBy(factor);
  }
  fit() {
    this.camera.fit(this.places.boxes.get(this.tree.root));
  }
}
