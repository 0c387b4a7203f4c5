// The map by keyboard: Tab goes through the boxes of the domain one is in, Enter goes in, Backspace out.
import {say} from "./dom.js";
import {sentence} from "./map_tip.js";
import {select, state} from "./state.js";

/** Keys of a map that has camera, root, index, focus, within, zoomTo(), zoomToGang() and drawOver(). */
export class Keys {
  constructor(map) {
    this.map = map;
    map.base.addEventListener("keydown", (event) => this.near(event));
    map.base.addEventListener("blur", () => this.focusOn(null));
    addEventListener("keydown", (event) => this.far(event));
  }

  /** What a key does wherever the focus is, as long as nobody types. */
  always(key) {
    const {camera} = this.map;
    const acts = {
      "+": () => camera.zoom(1.4),
      "=": () => camera.zoom(1.4),
      "-": () => camera.zoom(1 / 1.4),
      0: () => this.map.zoomTo(this.map.root),
      z: () => this.map.zoomToGang(),
    };
    if (!acts[key]) return false;
    acts[key]();
    return true;
  }

  far(event) {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
    if (event.defaultPrevented || !this.map.shown || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.always(event.key)) event.preventDefault();
  }

  near(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const {camera, focus} = this.map;
    const step = Math.min(camera.width, camera.height) * 0.15;
    const acts = {
      ArrowLeft: () => camera.move(step, 0),
      ArrowRight: () => camera.move(-step, 0),
      ArrowUp: () => camera.move(0, step),
      ArrowDown: () => camera.move(0, -step),
      Enter: () => this.enter(),
      Backspace: () => this.out(),
    };
    if (event.key === "Tab") {
      if (!this.next(event.shiftKey ? -1 : 1)) return;
    } else if (event.key === "Escape") {
      if (!focus && camera.fitted()) return;
      this.focusOn(null);
      this.map.zoomTo(this.map.root);
    } else if (acts[event.key]) {
      acts[event.key]();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** The next box inside the domain one is in; after the last one, Tab leaves the map as everywhere. */
  next(by) {
    const boxes = this.map.within?.children || [];
    const at = boxes.indexOf(this.map.focus);
    const to = at < 0 ? (by > 0 ? 0 : -1) : at + by;
    if (to < 0 || to >= boxes.length) return false;
    this.focusOn(boxes[to]);
    return true;
  }

  focusOn(box) {
    this.map.focus = box;
    if (box) say(sentence(box, this.map.index.frame));
    this.map.drawOver();
  }

  /** Into a domain; on a node: the gangs on it, one after another. */
  enter() {
    const {focus: box, index} = this.map;
    if (!box) return;
    if (box.kind === "domain") {
      this.map.zoomTo(box);
      this.focusOn(box.children[0] || null);
      return;
    }
    const keys = [...new Set(index.runs(box.name).pods.map((pod) => pod.key))];
    if (keys.length) select(keys[(keys.indexOf(state.selected) + 1) % keys.length]);
  }

  out() {
    const from = this.map.within;
    if (!from?.parent) return;
    this.map.zoomTo(from.parent);
    this.focusOn(from);
  }
}
