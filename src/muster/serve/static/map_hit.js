// What is under a point of the map.
import {matches} from "./delta.js";

/** Is a point of the map in a box? */
export function inside(box, x, y) {
  return x >= box.x && y >= box.y && x < box.x + box.w && y < box.y + box.h;
}

/** The smallest rectangle around some boxes. */
export function around(boxes) {
  const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
  const right = Math.max(...boxes.map((box) => box.x + box.w));
  const below = Math.max(...boxes.map((box) => box.y + box.h));
  return {x, y, w: right - x, h: below - y};
}

/** What is at (x, y) of the screen: {box, run, key, header: on the name of a domain}; null outside of all. */
export function hit(painter, root, x, y) {
  const {k, x: shiftX, y: shiftY} = painter.camera;
  const [px, py] = [(x - shiftX) / k, (y - shiftY) / k];
  let box = root;
  if (!inside(box, px, py)) return null;
  while (box.children && box.children.length && !painter.tooSmall(box.children[0])) {
    const inner = box.children.find((child) => inside(child, px, py));
    if (!inner) break;
    box = inner;
  }
  if (box === root) return null;
  const found = {box, run: null, key: null, header: box.kind === "domain" && py < box.y + box.head};
  if (box.kind === "node") found.run = runAt(painter, box, x, y);
  else if (!found.header && painter.tooSmall(box.children[0])) found.key = bandAt(painter, box, x);
  if (found.run) found.key = found.run.key;
  return found;
}

function runAt(painter, box, x, y) {
  const {index} = painter;
  const area = painter.slotsArea(box, painter.rect(box), index.frame.nodes[box.name]?.slots || 0);
  const column = (x - area.x) / area.cw;
  const row = Math.floor((y - area.y) / area.ch);
  if (column < 0 || column >= area.columns || row < 0 || row >= area.rows) return null;
  const slot = painter.bars ? column : row * area.columns + column;
  return index.runs(box.name).runs.find((run) => run.from <= slot && slot < run.to) || null;
}

function bandAt(painter, box, x) {
  const area = painter.barArea(box, painter.rect(box));
  let left = ((x - area.x) / area.w) * box.slots;
  if (left < 0) return null;
  for (const part of painter.index.mix(box)) if ((left -= part.slots) < 0) return part.key;
  return null;
}

/** The domains one is in, from the whole inward: each holds the middle of the view and fills most of it. */
export function trailOf(root, camera) {
  const trail = [root];
  const x = (camera.width / 2 - camera.x) / camera.k;
  const y = (camera.height / 2 - camera.y) / camera.k;
  if (camera.fitted()) return trail;
  for (;;) {
    const inner = trail[trail.length - 1].children.find(
      (box) =>
        box.kind === "domain" &&
        inside(box, x, y) &&
        (box.w * camera.k > camera.width * 0.6 || box.h * camera.k > camera.height * 0.6),
    );
    if (!inner) return trail;
    trail.push(inner);
  }
}

const MOST_FOUND = 300;

/** Gangs and nodes that answer to what was typed, into `lit` and `found`; of too many nodes none. */
export function searched(frame, text, lit, found) {
  for (const key in frame.gangs) if (matches(text, key, frame.gangs[key])) lit.add(key);
  for (const name in frame.nodes) if (found.size <= MOST_FOUND && name.includes(text)) found.add(name);
  if (found.size > MOST_FOUND) found.clear();
}
