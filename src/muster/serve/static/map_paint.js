// Paints boxes on a canvas: what a box shows depends on its size on the screen. Core solid, surplus hatched, binding
// dotted, nominated outlined, leaving pale and crossed; cordoned nodes crossed, not ready ones cross-hatched.
import {COLOURS, look, tone} from "./colours.js";
import {count} from "./dom.js";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
const NODE_PAD = 0.22; // as in map_layout.js
const NODE_HEAD = 0.72;
const SMALLEST = 4; // pixels of a node; below it the domain is one bar
const DETAILED = 5; // pixels of a slot; below it no gaps, marks or patterns
const PALE = {core: 1, surplus: 0.62, binding: 0.75, leaving: 0.35, nominated: 0.2, others: 1, ghost: 0.6};

/** The colours of the theme, and the three patterns in them. */
export function palette(dpr) {
  const names = [
    "box0",
    "box1",
    "node",
    "slot",
    "others",
    "edge",
    "text",
    "dim",
    "faint",
    "bg",
    "panel",
    "ink",
    "on4",
    "accent",
    "alarm",
  ];
  const made = Object.fromEntries(names.map((name) => [name, tone(name)]));
  made.gang = Array.from({length: COLOURS}, (_, colour) => tone(`g${colour}`));
  made.hatch = tile(dpr, 6, (pen) => {
    pen.strokeStyle = made.node;
    pen.lineWidth = 2;
    for (const shift of [-6, 0, 6]) line(pen, shift - 1, 7, shift + 7, -1);
  });
  made.dots = tile(dpr, 4, (pen) => {
    pen.fillStyle = made.node;
    pen.fillRect(0, 0, 4, 4);
    pen.globalCompositeOperation = "destination-out";
    pen.beginPath();
    pen.arc(2, 2, 1.35, 0, 7);
    pen.fill();
  });
  made.mesh = tile(dpr, 6, (pen) => {
    pen.strokeStyle = made.faint;
    pen.lineWidth = 1;
    for (const shift of [-6, 0, 6]) {
      line(pen, shift - 1, 7, shift + 7, -1);
      line(pen, shift - 1, -1, shift + 7, 7);
    }
  });
  return made;
}

function tile(dpr, size, draw) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.round(size * dpr);
  const pen = canvas.getContext("2d");
  pen.scale(canvas.width / size, canvas.width / size);
  draw(pen);
  const made = pen.createPattern(canvas, "repeat");
  made.setTransform(new DOMMatrix().scale(size / canvas.width));
  return made;
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

/** Paints with one pen, camera {k, x, y} and size; made anew for each. */
export class Painter {
  constructor(pen, colours, index, grid, bars) {
    Object.assign(this, {pen, colours, index, grid, bars});
    this.widths = new Map();
    this.drawn = 0;
  }

  aim(camera, width, height, dpr) {
    Object.assign(this, {camera: {...camera}, width, height, dpr});
    this.pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.pen.textBaseline = "middle";
    this.font = "";
  }

  clear() {
    this.pen.clearRect(0, 0, this.width, this.height);
  }

  snap(value) {
    return Math.round(value * this.dpr) / this.dpr;
  }

  /** A box on the screen, on whole device pixels. */
  rect(box) {
    const {k, x, y} = this.camera;
    const left = this.snap(box.x * k + x);
    const top = this.snap(box.y * k + y);
    return {x: left, y: top, w: this.snap((box.x + box.w) * k + x) - left, h: this.snap((box.y + box.h) * k + y) - top};
  }

  visible({x, y, w, h}) {
    return x < this.width && y < this.height && x + w > 0 && y + h > 0;
  }

  text(words, x, y, size, colour, {weight = 400, align = "left"} = {}) {
    const font = `${weight} ${size}px ${FONT}`;
    if (font !== this.font) this.pen.font = this.font = font;
    this.pen.fillStyle = colour;
    this.pen.textAlign = align;
    this.pen.fillText(words, x, y);
  }

  measure(words, size, weight = 400) {
    const key = `${weight} ${size} ${words}`;
    let width = this.widths.get(key);
    if (width === undefined) {
      const font = `${weight} ${size}px ${FONT}`;
      if (font !== this.font) this.pen.font = this.font = font;
      width = this.pen.measureText(words).width;
      if (this.widths.size > 20000) this.widths.clear();
      this.widths.set(key, width);
    }
    return width;
  }

  /** As much of a name as fits; the end says more than the start (…0042), whole words more than parts of them. */
  fit(words, room, size, weight) {
    const wide = this.measure(words, size, weight);
    if (wide <= room) return words;
    const keep = Math.floor((room / wide) * words.length) - 1;
    if (keep < 1) return "";
    const tail = words.slice(words.length - keep);
    const cut = tail.search(/[^A-Za-z0-9]/);
    if (cut >= 0 && cut < tail.length - 1) return `…${tail.slice(cut + 1)}`;
    return keep < 3 ? "" : `…${tail}`;
  }

  // ---- domains

  /** Everything below a box that can be seen; yields after each domain, so that a long painting can pause. */
  *paint(box) {
    const at = this.rect(box);
    box.shown = "";
    if (!this.visible(at)) return;
    if (box.kind === "node") {
      this.node(box);
      return;
    }
    const sample = box.children[0];
    if (box.level >= 0) this.frame(box, at);
    if (sample && this.tooSmall(sample)) {
      this.bar(box, at);
      return;
    }
    box.shown = "open";
    if (box.level >= 0) this.header(box, at);
    for (const child of box.children) yield* this.paint(child);
    yield;
  }

  tooSmall(box) {
    const w = box.w * this.camera.k;
    const h = box.h * this.camera.k;
    return box.kind === "node" ? w < SMALLEST || h < SMALLEST : w < 2 * SMALLEST || h < 2 * SMALLEST;
  }

  frame(box, {x, y, w, h}) {
    const {pen, colours} = this;
    pen.fillStyle = box.level % 2 ? colours.box1 : colours.box0;
    pen.fillRect(x, y, w, h);
    if (Math.min(w, h) < 7) return;
    pen.strokeStyle = colours.edge;
    pen.lineWidth = 1;
    if (box.loose) pen.setLineDash([3, 3]);
    pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    if (box.loose) pen.setLineDash([]);
  }

  /** The name of a domain and its free room; the words stay in sight while the box is moved out on the left. */
  header(box, at, colour = null) {
    const {colours} = this;
    const high = box.head * this.camera.k;
    if (high < 8.5 || at.y + high < 0) return;
    const size = Math.min(13, Math.max(9, Math.round(high * 0.7)));
    const left = Math.max(at.x, 0) + 5;
    const right = Math.min(at.x + at.w, this.width) - 5;
    const middle = at.y + high / 2 + 1;
    const weight = box.children[0] && box.children[0].kind === "domain" ? 600 : 500;
    const name = this.measure(box.name, size, weight);
    const room = right - left - name - 10;
    const words = [
      `free ${count(box.free)} of ${count(box.slots)}`,
      `${count(box.free)}/${count(box.slots)}`,
      count(box.free),
    ].find((text) => this.measure(text, size) <= room);
    const shown = words ? box.name : this.fit(box.name, right - left, size, weight);
    if (shown) this.text(shown, left, middle, size, colour || (weight === 600 ? colours.text : colours.dim), {weight});
    if (words && box.slots)
      this.text(words, right, middle, size, box.free ? colours.dim : colours.faint, {align: "right"});
  }

  /** The header on a clean ground. */
  repaintHeader(box, colour = null) {
    const at = this.rect(box);
    if (box.level < 0 || !box.shown || !this.visible(at) || Math.min(at.w, at.h) < 12) return;
    this.pen.fillStyle = box.level % 2 ? this.colours.box1 : this.colours.box0;
    this.pen.fillRect(at.x + 1, at.y + 1, at.w - 2, Math.max(0, box.head * this.camera.k - 1));
    this.header(box, at, colour);
  }

  barArea(box, at) {
    const high = box.head * this.camera.k;
    const head = high >= 8.5 ? high : 0;
    const inset = Math.min(at.w, at.h) > 12 ? 2 : Math.min(at.w, at.h) > 5 ? 1 : 0;
    return {
      x: at.x + inset,
      y: at.y + head + (head ? 0 : inset),
      w: at.w - 2 * inset,
      h: at.h - head - inset * (head ? 1 : 2),
    };
  }

  /** A domain whose nodes are too small to be seen: one bar, a band per gang, the rest is free. */
  bar(box, at, only = null) {
    const {pen, colours} = this;
    box.shown = "bar";
    if (!only) this.header(box, at);
    const {x, y, w, h} = this.barArea(box, at);
    if (!only) {
      pen.fillStyle = colours.slot;
      pen.fillRect(x, y, w, h);
      this.drawn += box.nodes;
    }
    if (!box.slots) return;
    let from = 0;
    for (const {key, state, slots} of this.index.mix(box)) {
      const left = x + (w * from) / box.slots;
      from += slots;
      if (only && !only.has(key)) continue;
      pen.globalAlpha = PALE[state];
      pen.fillStyle = key ? colours.gang[look(key).colour] : colours.others;
      pen.fillRect(left, y, Math.max(only ? 1 : 0, (w * slots) / box.slots), h);
    }
    pen.globalAlpha = 1;
  }

  // ---- nodes

  /** Where the slots of a node are on the screen: {x, y, w, h of the slots, columns, rows, gap, slots, cw, ch}. */
  slotsArea(box, at, slots) {
    const {columns, rows} = this.grid;
    const unit = at.w / (columns + 2 * NODE_PAD);
    const detailed = Math.min(unit, at.h / (rows + NODE_HEAD + NODE_PAD)) >= DETAILED;
    const area = {x: at.x, y: at.y, w: at.w, h: at.h, columns, rows, gap: 0, detailed, slots};
    if (detailed) {
      const head = Math.min(22, (at.h * NODE_HEAD) / (rows + NODE_HEAD + NODE_PAD));
      const pad = Math.min(7, unit * NODE_PAD);
      Object.assign(area, {x: at.x + pad, y: at.y + head, w: at.w - 2 * pad, h: at.h - head - pad, head, pad});
      area.gap = Math.min(4, Math.max(1, Math.round(Math.min(area.w / columns, area.h / rows) * 0.1)));
    } else if (Math.min(at.w, at.h) >= 7) {
      Object.assign(area, {x: at.x + 0.5, y: at.y + 0.5, w: at.w - 1, h: at.h - 1});
    }
    if (this.bars) Object.assign(area, {columns: Math.max(slots, 1e-9), rows: 1, gap: 0});
    area.cw = area.w / area.columns;
    area.ch = area.h / area.rows;
    return area;
  }

  /** The rectangles of slots [from, to) in reading order, one per row; fn(x, y, w, h, isFirst). */
  pieces(area, from, to, fn) {
    const {columns, rows, cw, ch, gap} = area;
    let first = true;
    const last = this.bars ? 0 : Math.min(rows - 1, Math.ceil(to / columns) - 1);
    for (let row = this.bars ? 0 : Math.floor(from / columns + 1e-9); row <= last; row++) {
      const start = Math.max(from - row * columns, 0);
      const end = Math.min(to - row * columns, columns);
      if (end - start < 1e-9) continue;
      // A pod of several rows is one piece: the gap below belongs to it where it goes on below.
      const joined = to >= (row + 1) * columns + end - 1e-9 && row < last;
      const left = this.snap(area.x + start * cw + gap / 2);
      const right = this.snap(area.x + end * cw - gap / 2);
      const top = this.snap(area.y + row * ch + gap / 2);
      const bottom = this.snap(area.y + (row + 1) * ch - (joined ? -gap / 2 : gap / 2));
      fn(left, top, Math.max(right - left, 0.5), Math.max(bottom - top, 0.5), first);
      first = false;
    }
  }

  node(box) {
    const at = this.rect(box);
    if (!this.visible(at)) return;
    const {pen, colours, index} = this;
    const facts = index.frame.nodes[box.name] || {slots: 0, free: 0, state: "ready"};
    box.shown = "node";
    this.drawn++;
    const area = this.slotsArea(box, at, facts.slots);
    pen.fillStyle = area.detailed ? colours.node : colours.slot;
    pen.fillRect(at.x, at.y, at.w, at.h);
    const entry = index.runs(box.name);
    if (area.detailed) {
      pen.strokeStyle = colours.edge;
      pen.lineWidth = 1;
      pen.strokeRect(at.x + 0.5, at.y + 0.5, at.w - 1, at.h - 1);
      this.emptySlots(area, entry.free, facts.slots);
      this.nodeHead(box, at, area, facts, entry);
    }
    for (const run of entry.runs) this.run(area, run);
    this.labels(area, entry.runs);
    if (facts.state !== "ready") this.unfit(at, area, facts.state);
  }

  emptySlots(area, from, slots) {
    const {pen, colours} = this;
    pen.fillStyle = colours.slot;
    const each = (x, y, w, h) => pen.fillRect(x, y, w, h);
    if (this.bars) this.pieces(area, from, slots, each);
    else
      for (let slot = Math.floor(from); slot < slots; slot++) this.pieces(area, slot, Math.min(slot + 1, slots), each);
  }

  nodeHead(box, at, area, facts, entry) {
    if (area.head < 8.5) return;
    const {colours} = this;
    const size = Math.min(12, Math.max(8, Math.round(area.head * 0.72)));
    const left = at.x + area.pad;
    const right = at.x + at.w - area.pad;
    const middle = at.y + area.head / 2 + 0.5;
    const free = facts.state === "ready" ? count(facts.free) : facts.state === "cordoned" ? "cordoned" : "not ready";
    const name = this.fit(box.label || box.name, right - left, size);
    const room = right - left - this.measure(name, size) - 6;
    const tint = facts.state === "ready" ? colours.faint : colours.alarm;
    if (name) this.text(name, left, middle, size, colours.dim);
    const words = [facts.state === "ready" ? `${free} free` : free, facts.state === "ready" ? free : "!"].find(
      (text) => this.measure(text, size) <= room,
    );
    if (words && (facts.slots || facts.state !== "ready"))
      this.text(words, right, middle, size, tint, {align: "right"});
    this.dotsOf(entry, area, at);
  }

  /** Pods that ask for none of the unit have no slot; they are dots on the lower edge. */
  dotsOf(entry, area, at, only = null) {
    const {pen, colours} = this;
    let x = at.x + area.pad + 2;
    for (const pod of entry.pods) {
      if (pod.slots || x > at.x + at.w - 3) continue;
      if (!only || only.has(pod.key)) {
        pen.fillStyle = colours.gang[look(pod.key).colour];
        pen.globalAlpha = PALE[pod.state];
        pen.fillRect(x, at.y + at.h - 4, 3, 3);
      }
      x += 5;
    }
    pen.globalAlpha = 1;
  }

  /** What one pod covers, filled by its state in the colour of its gang. */
  run(area, {from, to, key, state}) {
    const {pen, colours} = this;
    const worn = key ? look(key) : null;
    const colour = worn ? colours.gang[worn.colour] : colours.others;
    if (!area.detailed) {
      pen.globalAlpha = PALE[state];
      pen.fillStyle = colour;
      this.pieces(area, from, to, (x, y, w, h) => pen.fillRect(x, y, w, h));
      pen.globalAlpha = 1;
      return;
    }
    this.pieces(area, from, to, (x, y, w, h, first) => {
      this.fill(x, y, w, h, state, colour);
      if (worn && (worn.mark === 2 || (worn.mark && first))) this.mark(x, y, w, h, worn.mark, state);
    });
  }

  /** One rectangle in the filling of a state; also used by the legend. */
  fill(x, y, w, h, state, colour) {
    const {pen, colours} = this;
    if (state === "nominated" || state === "ghost") {
      const thick = Math.min(w, h) > 9 ? 2 : 1;
      pen.fillStyle = colour;
      pen.globalAlpha = state === "ghost" ? 0.3 : 0.1;
      pen.fillRect(x, y, w, h);
      pen.globalAlpha = 1;
      pen.strokeStyle = colour;
      pen.lineWidth = thick;
      if (state === "ghost") pen.setLineDash([4, 2]);
      pen.strokeRect(x + thick / 2, y + thick / 2, w - thick, h - thick);
      if (state === "ghost") pen.setLineDash([]);
      return;
    }
    if (state === "leaving") pen.globalAlpha = 0.32;
    pen.fillStyle = colour;
    pen.fillRect(x, y, w, h);
    pen.globalAlpha = 1;
    if (state === "surplus" || state === "binding") {
      pen.fillStyle = state === "surplus" ? colours.hatch : colours.dots;
      pen.fillRect(x, y, w, h);
    } else if (state === "leaving") {
      this.cross(x, y, w, h, colours.dim, 1);
    }
  }

  cross(x, y, w, h, colour, thick) {
    const {pen} = this;
    pen.strokeStyle = colour;
    pen.lineWidth = thick;
    pen.beginPath();
    pen.moveTo(x + 1, y + 1);
    pen.lineTo(x + w - 1, y + h - 1);
    pen.moveTo(x + w - 1, y + 1);
    pen.lineTo(x + 1, y + h - 1);
    pen.stroke();
  }

  /** The mark tells gangs of one colour apart: a corner, or a bar on the left. */
  mark(x, y, w, h, mark, state) {
    if (Math.min(w, h) < 7) return;
    const {pen, colours} = this;
    pen.fillStyle = colours.ink;
    pen.globalAlpha = state === "leaving" || state === "nominated" ? 0.3 : 0.6;
    const size = Math.min(7, Math.min(w, h) * 0.35);
    pen.beginPath();
    if (mark === 1) {
      pen.moveTo(x + w - size, y);
      pen.lineTo(x + w, y);
      pen.lineTo(x + w, y + size);
      pen.fill();
    } else {
      pen.fillRect(x, y, Math.max(2, size / 2), h);
    }
    pen.globalAlpha = 1;
  }

  /** The short name of each gang once per node: in its first pod, or over the pods of its first row. */
  labels(area, runs) {
    if (!area.detailed || area.ch - area.gap < 10) return;
    for (let index = 0; index < runs.length;) {
      const {from, to, key, state} = runs[index];
      let end = to;
      while (++index < runs.length && runs[index].key === key) if (runs[index].from === end) end = runs[index].to;
      if (!key) continue;
      let done = false;
      for (const last of [to, end]) {
        this.pieces(area, from, last, (x, y, w, h, first) => {
          if (first && !done) done = this.label(x, y, w, Math.min(h, area.ch), look(key), state, last > to);
        });
      }
    }
  }

  label(x, y, w, h, worn, state, over) {
    const {pen, colours} = this;
    const size = Math.min(11, Math.max(8, Math.round(h * 0.5)));
    const width = this.measure(worn.label, size, 600);
    if (width + 2 > w) return false;
    const pale = state === "leaving" || state === "nominated" || state === "ghost";
    if (over || state === "surplus" || state === "binding" || state === "ghost") {
      pen.fillStyle = pale ? colours.node : colours.gang[worn.colour];
      pen.fillRect(x + w / 2 - width / 2 - 2, y + h / 2 - size / 2 - 1, width + 4, size + 2);
    }
    const ink = pale ? colours.text : worn.colour === 4 ? colours.on4 : colours.ink;
    this.text(worn.label, x + w / 2, y + h / 2 + 0.5, size, ink, {weight: 600, align: "center"});
    return true;
  }

  unfit({x, y, w, h}, area, state) {
    const {pen, colours} = this;
    const top = area.detailed ? area.y : y;
    const high = area.detailed ? area.h : h;
    if (state === "notReady") {
      pen.fillStyle = area.detailed ? colours.mesh : colours.faint;
      pen.globalAlpha = area.detailed ? 1 : 0.6;
      pen.fillRect(area.x, top, area.w, high);
      pen.globalAlpha = 1;
    } else {
      this.cross(area.x, top, area.w, high, colours.dim, area.detailed ? 1.5 : 1);
    }
    if (area.detailed) {
      pen.strokeStyle = colours.alarm;
      pen.lineWidth = 1;
      pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
  }
}
