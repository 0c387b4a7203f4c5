// From a frame to what the map needs, in steps: of many nodes, no single step holds the page for long.
import {Index} from "./map_index.js";
import {fingerprint, slotGrid, structureSteps} from "./map_layout.js";

const MOST_CELLS = 32; // slots of a node; nodes with more, or with parts of one, are drawn as a bar

/** Which topology a frame is shown by: its index, or -1 for none. */
export function topologyOf(frame, asked) {
  const {topologies = []} = frame || {};
  if (asked === "-") return -1;
  const found = topologies.findIndex(({name}) => name === asked);
  return found >= 0 ? found : topologies.length ? 0 : -1;
}

/** Where a node belongs, as a text. */
export function homeOf(facts, topology) {
  const path = topology < 0 ? null : (facts.paths || [])[topology];
  return path ? path.join("/") : "";
}

/** What all names end with, from the first dot on (".ec2.internal"), or "": it tells nodes apart nowhere. */
export function commonTail(nodes) {
  let tail = null;
  for (const name in nodes) {
    const dot = name.indexOf(".");
    const own = dot > 0 ? name.slice(dot) : "";
    if (tail === null) tail = own;
    if (own !== tail) return "";
  }
  return tail || "";
}

/** A generator that returns {topology, largest, bars, grid, print, root, index, domains}; `before` lends boxes. */
export function* build(frame, topology, before) {
  let largest = 1;
  let parts = false;
  for (const name in frame.nodes) {
    const slots = frame.nodes[name].slots || 0;
    largest = Math.max(largest, slots);
    parts = parts || slots % 1 !== 0;
  }
  const bars = parts || largest > MOST_CELLS;
  const grid = slotGrid(bars ? 8 : largest);
  const chosen = frame.topologies?.[topology];
  const print = `${topology} ${grid.columns}×${grid.rows}\n${fingerprint(frame.nodes, topology)}`;
  yield;
  const root =
    before && before.print === print
      ? before.root
      : yield* structureSteps(frame.nodes, topology, chosen ? chosen.levels : []);
  yield;
  const index = new Index(frame);
  yield* index.fill();
  const domains = {topology: chosen ? chosen.name : null, boxes: new Map()};
  const tail = commonTail(frame.nodes);
  const walk = (box) => {
    if (box.kind === "node") {
      box.label = tail ? box.name.slice(0, -tail.length) : box.name;
      box.home = homeOf(frame.nodes[box.name], topology);
      return;
    }
    domains.boxes.set(box.path, box);
    box.children.forEach(walk);
  };
  walk(root);
  yield;
  index.stand(root); // last: it writes the sums of this frame on boxes that may still be on the screen
  return {topology, largest, bars, grid, print, root, index, domains};
}

/** Did nodes come, go, move to another domain, or grow beyond the grid? Then the boxes have to be made anew. */
export function restructured(made, frame, names) {
  for (const name of names) {
    const facts = frame.nodes[name];
    const box = made.index.box.get(name);
    if (!facts !== !box) return true;
    if (!facts) continue;
    if (box.home !== homeOf(facts, made.topology)) return true;
    if (!made.bars && (facts.slots > made.largest || facts.slots % 1)) return true;
  }
  return false;
}

/** Run a generator: at once when `soon`, else a slice at a time; done(value) at the end. Returns what stops it. */
export function inSlices(steps, slice, soon, done) {
  let stopped = false;
  const go = () => {
    const begin = performance.now();
    while (!stopped) {
      const step = steps.next();
      if (step.done) {
        done(step.value);
        return;
      }
      if (!soon && performance.now() - begin > slice) {
        setTimeout(go);
        return;
      }
    }
  };
  go();
  return () => {
    stopped = true;
  };
}
