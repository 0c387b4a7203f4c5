// The topology map: nested boxes down to nodes and slots on a canvas. This module holds the pieces together: layout
// (map_layout, map_build), who is where (map_index), painting (map_paint, map_over), looking and pointing (map_camera,
// map_hit, map_keys), words (map_bar, map_tip).
import {onTheme} from "./colours.js";
import {h, empty, later, replace} from "./dom.js";
import {Bar} from "./map_bar.js";
import {build, inSlices, restructured, topologyOf} from "./map_build.js";
import {Camera, listen} from "./map_camera.js";
import {around, hit, searched, trailOf} from "./map_hit.js";
import {Keys} from "./map_keys.js";
import {layout} from "./map_layout.js";
import {heldIn, paintOver, unitOf} from "./map_over.js";
import {Painter, palette} from "./map_paint.js";
import {about, legend, noNodes, whereabouts} from "./map_tip.js";
import {hover, route, select, state} from "./state.js";

const SLICE_MS = 10; // how long the painting may hold the page at once
const QUICK_MS = 14; // a map that paints in this time is painted at every step
const REST_MS = 80; // while a large map is moved, the last picture is moved along; it is painted when the hand rests,
const LONGEST_MS = 300; // or after this time
const MANY = 1500; // nodes; below it everything is made at once
const SEEK_MS = 1500; // so long after it was chosen a gang is brought into sight

class TopologyMap {
  constructor(element) {
    this.element = element;
    this.shown = false;
    this.stale = true;
    this.cost = this.turned = this.finished = 0;
    this.camera = new Camera(() => this.look());
    this.build();
    this.draw = later(() => this.paint());
    this.drawOver = later(() => this.over());
    listen(this.base, this.camera, {
      point: (x, y) => this.point(x, y),
      leave: () => this.leave(),
      click: (x, y) => this.click(x, y),
      open: (x, y) => this.open(x, y),
    });
    this.keys = new Keys(this);
    new ResizeObserver(() => this.shown && this.resized()).observe(this.stage);
    state.on("frame", (changed) => this.moved(changed));
    state.on("ghost", () => {
      legend(this.legend, this.dpr(), state.ghost);
      if (this.shown) this.drawOver();
    });
    state.on("select", () => this.chosen());
    for (const event of ["hover", "near", "route", "search"]) state.on(event, () => this.shown && this.drawOver());
    onTheme(() => this.retheme());
    window.musterMap = {
      where: (node) => this.where(node),
      slotsOf: (gang) => this.index?.slotsOf(gang) || [],
      times: this.times,
    };
  }

  build() {
    this.times = {layout: 0, index: 0, paint: 0, slice: 0, over: 0};
    this.base = h("canvas", {
      class: "base",
      tabindex: "0",
      role: "application",
      "aria-label": "Topology map",
      "aria-describedby": "map-about",
      data: {testid: "map"},
    });
    this.top = h("canvas", {class: "over", "aria-hidden": "true"});
    this.tip = h("div", {class: "tip", role: "tooltip", hidden: true});
    this.stage = h("div", {class: "map-stage"}, this.base, this.top, this.tip);
    this.bar = new Bar({
      zoom: (by) => this.camera.zoom(by),
      fit: () => this.zoomTo(this.root),
      zoomTo: (box) => this.zoomTo(box),
      zoomToGang: () => this.zoomToGang(),
    });
    this.words = h("p", {id: "map-about", class: "off-screen", "aria-live": "polite"});
    this.legend = h("div", {class: "map-legend", "aria-label": "Legend"});
    this.nothing = h("div", {hidden: true});
    replace(this.element, this.bar.element, this.nothing, this.stage, this.legend, this.words);
  }

  // ---- what there is to show

  show() {
    this.shown = true;
    if (this.stale || !this.made || topologyOf(state.frame, route().query.topology) !== this.made.topology)
      this.rebuild();
    else this.resized();
    this.describe();
  }

  hide() {
    this.shown = false;
    this.leave();
  }

  moved(changed) {
    if (!this.shown || !state.frame) {
      this.stale = true;
      return;
    }
    if (
      !changed ||
      !this.index ||
      this.stop ||
      this.index.frame !== state.frame ||
      restructured(this.made, state.frame, changed.nodes)
    ) {
      this.rebuild();
      return;
    }
    const begin = performance.now();
    const dirty = this.index.update(state.frame, changed);
    this.times.index = performance.now() - begin;
    if (state.selected && changed.gangs.has(state.selected)) this.describe();
    this.touch(dirty);
  }

  /** Make everything of the frame; the old picture stays until the new one is there. */
  rebuild() {
    const {frame} = state;
    if (!frame) return;
    if (this.stop) this.stop();
    this.stop = null;
    this.stale = false;
    const begin = performance.now();
    const steps = build(frame, topologyOf(frame, route().query.topology), this.made);
    const few = Object.keys(frame.nodes).length < MANY;
    let over = false;
    const stop = inSlices(steps, SLICE_MS, few, (made) => {
      over = true;
      this.stop = null;
      this.times.index = performance.now() - begin;
      this.take(made, frame);
      if (few) this.resized();
      else setTimeout(() => this.shown && this.resized());
      this.describe();
    });
    if (!over) this.stop = stop;
  }

  take(made, frame) {
    if (made.root !== this.root) {
      this.laid = null;
      this.focus = this.clicked = null;
      this.within = made.root;
      this.job = null;
    }
    this.made = made;
    Object.assign(this, {root: made.root, index: made.index, grid: made.grid, bars: made.bars, domains: made.domains});
    this.furnish(frame);
  }

  furnish(frame) {
    this.bar.choose(frame, this.made.topology);
    const none = Object.keys(frame.nodes).length === 0;
    this.nothing.hidden = !none;
    this.stage.hidden = this.legend.hidden = none;
    if (none) replace(this.nothing, empty(...noNodes(frame, state.session)));
    if (!this.legend.childElementCount) legend(this.legend, this.dpr(), state.ghost);
  }

  dpr() {
    return Math.min(3, Math.max(1, window.devicePixelRatio || 1));
  }

  resized() {
    const width = this.stage.clientWidth;
    const height = this.stage.clientHeight;
    if (!this.root || width < 20 || height < 20) return;
    const laid = `${width}×${height}@${this.dpr()}`;
    if (laid !== this.laid) {
      const begin = performance.now();
      const held = this.anchor();
      this.laid = laid;
      layout(this.root, width, height, this.grid);
      this.times.layout = performance.now() - begin;
      for (const canvas of [this.base, this.top]) {
        canvas.width = Math.round(width * this.dpr());
        canvas.height = Math.round(height * this.dpr());
      }
      this.picture = null;
      this.job = null;
      const node = this.index.box.values().next().value;
      // Slots of 110 pixels are enough.
      this.camera.most = node ? Math.max(2, 110 / (node.w / (this.grid.columns + 0.4))) : 8;
      this.camera.resize(width, height, this.root);
      if (held) this.camera.hold(held.box, held.at);
      this.seek();
    }
    this.colours ||= palette(this.dpr());
    this.whole();
  }

  retheme() {
    this.colours = null;
    this.legend.replaceChildren();
    if (!this.shown || !this.root) return;
    legend(this.legend, this.dpr(), state.ghost);
    this.colours = palette(this.dpr());
    this.picture = null;
    this.whole();
  }

  // ---- painting

  look() {
    if (!this.shown || !this.index) return;
    this.tip.hidden = true;
    this.turned = performance.now();
    this.whole();
    this.bar.trail(trailOf(this.root, this.camera));
  }

  whole() {
    this.wanted = true;
    this.draw();
    this.drawOver();
  }

  newCanvas() {
    const spare = this.spare || h("canvas");
    this.spare = null;
    spare.width = this.base.width;
    spare.height = this.base.height;
    return spare;
  }

  painterOn(canvas, camera) {
    const painter = new Painter(canvas.getContext("2d"), this.colours, this.index, this.grid, this.bars);
    painter.aim(camera, this.camera.width, this.camera.height, this.dpr());
    return painter;
  }

  /** One animation frame: go on with the painting, or begin the one that is wanted; show the newest picture. */
  paint() {
    if (!this.shown || !this.index || !this.colours || !this.laid) return;
    const now = performance.now();
    const moving =
      this.picture?.painter.drawn > MANY && now - this.turned < REST_MS && now - this.finished < LONGEST_MS;
    if (!this.job && this.wanted && !moving) {
      this.wanted = false;
      const canvas = this.newCanvas();
      const painter = this.painterOn(canvas, this.camera.now);
      painter.clear();
      this.job = {canvas, painter, steps: painter.paint(this.root), spent: 0, dirty: new Set(), index: this.index};
    }
    if (this.job) this.go(this.job);
    this.blit();
    if (this.job || this.wanted) this.draw();
  }

  go(job) {
    const begin = performance.now();
    const budget = this.picture && this.cost > QUICK_MS ? SLICE_MS : QUICK_MS;
    let done = false;
    while (!done && performance.now() - begin < budget) done = job.steps.next().done;
    const took = performance.now() - begin;
    job.spent += took;
    this.times.slice = Math.max(this.times.slice, took);
    if (!done) return;
    this.job = null;
    this.finished = performance.now();
    this.times.paint = this.cost = job.spent;
    if (this.picture) this.spare = this.picture.canvas;
    this.picture = {canvas: job.canvas, painter: job.painter};
    this.base.dataset.drawn = String(job.painter.drawn);
    if (job.index !== this.index) this.wanted = true;
    else if (job.dirty.size) this.touch(job.dirty);
  }

  /** Bring the newest whole picture to the screen, moved to where the camera is by now. */
  blit() {
    if (!this.picture) return;
    const pen = this.base.getContext("2d");
    const {k, x, y} = this.picture.painter.camera;
    const now = this.camera.now;
    const by = now.k / k;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.base.width, this.base.height);
    const dpr = this.dpr();
    pen.setTransform(by, 0, 0, by, (now.x - x * by) * dpr, (now.y - y * by) * dpr);
    pen.imageSmoothingEnabled = by !== 1;
    pen.drawImage(this.picture.canvas, 0, 0);
  }

  /** Paint only what changed: the boxes of dirty nodes and the numbers of the domains around them. */
  touch(dirty) {
    if (!dirty.size || !this.picture) return this.whole();
    if (this.job) for (const node of dirty) this.job.dirty.add(node);
    if (dirty.size > 400 && dirty.size > this.root.nodes * 0.3) return this.whole();
    const begin = performance.now();
    const {painter} = this.picture;
    const units = new Set();
    const above = new Set();
    for (const node of dirty) {
      const box = this.index.box.get(node);
      if (!box) continue;
      units.add(unitOf(painter, box));
      for (let up = box.parent; up; up = up.parent) above.add(up);
    }
    const {drawn} = painter;
    painter.index = this.index;
    for (const unit of units) for (const _ of painter.paint(unit)); // a unit is small: no pause needed
    for (const box of above) if (!units.has(box)) painter.repaintHeader(box);
    painter.drawn = drawn;
    this.times.touch = performance.now() - begin;
    this.draw();
    this.drawOver();
  }

  over() {
    if (!this.shown || !this.index || !this.colours || !this.laid) return;
    const begin = performance.now();
    const lit = new Set();
    const found = new Set();
    const chosen = ["gang", "gangs", "timeline"].includes(route().view) ? state.selected : null;
    // A gang that is nowhere lights nothing up: then nothing fades either.
    if (chosen && this.index.nodesOf.get(chosen)?.size) lit.add(chosen);
    else if (state.hovered && !this.pointing && this.index.nodesOf.get(state.hovered)?.size) lit.add(state.hovered);
    else if (state.search) searched(this.index.frame, state.search, lit, found);
    // A what-if was asked of the cluster as it is now: elsewhere and in the past it means nothing.
    const ghost = state.at === null && ["map", "whatif"].includes(route().view) ? state.ghost : null;
    const ghosts = paintOver(this.painterOn(this.top, this.camera.now), this.root, this.domains, {
      lit,
      found,
      faint: state.hovered,
      ghost,
      near: this.near(),
      focus: this.focus,
      hot: this.hot,
    });
    this.base.dataset.ghosts = String(ghosts);
    this.base.dataset.selected = state.selected || "";
    this.times.over = performance.now() - begin;
  }

  /** The domains that come nearest for the chosen gang, where they are of the topology that is shown. */
  near() {
    const mine = route().view === "gang" && state.near?.key === state.selected;
    const {here} = heldIn(this.index.frame.gangs[state.selected], this.domains.topology);
    return mine && here ? state.near.nearest.slice(0, 3) : [];
  }

  describe() {
    if (!this.index) return;
    this.bar.toGang.hidden = !state.selected || !this.index.nodesOf.get(state.selected)?.size;
    this.words.textContent = state.selected
      ? whereabouts(state.selected, this.index.frame, this.index, this.domains)
      : "";
    const {frame} = this.index;
    this.bar.tell(frame, this.domains.topology, state.selected && frame.gangs[state.selected]);
    this.drawOver();
    this.bar.trail(trailOf(this.root, this.camera));
  }

  zoomTo(box) {
    this.within = box && box.kind === "domain" ? box : this.within;
    this.camera.fly(box);
  }

  /** Show the domains that the chosen gang is in, as large as they fit. */
  zoomToGang() {
    const nodes = [...(this.index?.nodesOf.get(state.selected) || [])].map((node) => this.index.box.get(node));
    if (nodes.length)
      this.camera.fly(around(nodes.filter(Boolean).map((box) => (box.parent.level < 0 ? box : box.parent))));
  }

  /** What shall stay where it is when everything is laid out anew: the box that was clicked, or the middle one. */
  anchor() {
    if (!this.laid || this.camera.fitted()) return null;
    const box = this.clicked || this.hit(this.camera.width / 2, this.camera.height / 2)?.box;
    return box && box !== this.root ? {box, at: this.camera.at(box)} : null;
  }

  chosen() {
    this.since = performance.now();
    if (!this.shown) return;
    this.describe();
    this.seek();
  }

  /** Bring the gang that was just chosen into sight, when nothing of it is. */
  seek() {
    const nodes = [...(this.index?.nodesOf.get(state.selected) || [])].map((node) => this.index.box.get(node));
    if (!this.laid || !nodes.length || !(performance.now() - this.since < SEEK_MS)) return;
    if (!this.camera.sees(nodes.filter(Boolean))) this.zoomToGang();
  }

  // ---- pointing

  hit(x, y) {
    if (!this.index || !this.laid) return null;
    this.pointer ||= new Painter(this.top.getContext("2d"), null, null, null, false);
    const {camera, index, grid, bars} = this;
    Object.assign(this.pointer, {camera: camera.now, index, grid, bars, dpr: this.dpr()});
    return hit(this.pointer, this.root, x, y);
  }

  point(x, y) {
    const found = this.hit(x, y);
    this.pointing = true;
    this.base.classList.toggle("pointing", Boolean(found && (found.key || found.header)));
    this.hot = found ? found.box : null;
    hover(found ? found.key : null);
    this.drawOver();
    this.tip.hidden = !found;
    if (!found) return;
    const sign = `${found.box.path} ${found.key} ${found.run?.name} ${state.frame.version}`;
    if (sign !== this.tipSign) replace(this.tip, about(found, this.index.frame, this.index));
    this.tipSign = sign;
    const left =
      x + 14 + this.tip.offsetWidth > this.stage.clientWidth ? Math.max(0, x - 10 - this.tip.offsetWidth) : x + 14;
    const top =
      y + 14 + this.tip.offsetHeight > this.stage.clientHeight ? Math.max(0, y - 10 - this.tip.offsetHeight) : y + 14;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  leave() {
    this.tip.hidden = true;
    this.hot = null;
    if (this.pointing) hover(null);
    this.pointing = false;
    this.drawOver();
  }

  click(x, y) {
    const found = this.hit(x, y);
    this.clicked = found?.key ? found.box : null;
    if (found && found.key) select(found.key);
    else if (found && found.header) this.zoomTo(found.box);
    else if (state.selected) select(null);
  }

  open(x, y) {
    const found = this.hit(x, y);
    if (found && !found.key) this.zoomTo(found.box.kind === "node" ? found.box.parent : found.box);
  }

  // ---- for tests

  /** Where a node is on the page, in CSS pixels. */
  where(node) {
    const box = this.index?.box.get(node);
    if (!box) return null;
    const {left, top} = this.base.getBoundingClientRect();
    const {x, y, w, h} = this.camera.at(box);
    return {x: left + x, y: top + y, w, h};
  }
}

/** The panel of the map. */
export function mount(element) {
  const map = new TopologyMap(element);
  return {show: () => map.show(), hide: () => map.hide()};
}
