// What lies over the map: the veil that lets the chosen gang stand out, its domains, what-if ghosts and their victims,
// the search, the pointer and the keyboard's place. It is painted anew each time; the map below stays as it is.
import {look} from "./colours.js";
import {count} from "./dom.js";
import {ghostRuns} from "./map_index.js";

/** The smallest box around `box` that the map shows as one thing at this zoom. */
export function unitOf(painter, box) {
  let unit = box;
  for (let up = box.parent; up; up = up.parent) if (painter.tooSmall(up.children[0])) unit = up;
  return unit;
}

/** Paint all of it. `what`: {lit: gangs, faint: gang pointed at, ghost, near, found: nodes, focus: box, hot: box}. */
export function paintOver(painter, root, domains, what) {
  painter.clear();
  if (what.lit.size || what.found.size) lighten(painter, domains, what);
  if (what.faint && !what.lit.has(what.faint)) outline(painter, what.faint);
  if (what.near.length) paintNear(painter, domains, what.near, what.lit.size > 0);
  const ghosts = what.ghost ? paintGhost(painter, what.ghost, what.lit.size > 0) : 0;
  if (what.hot && what.hot !== root) ring(painter, what.hot, painter.colours.dim, 1);
  if (what.focus && what.focus !== root) ring(painter, what.focus, painter.colours.accent, 2.5);
  return ghosts;
}

function ring(painter, box, colour, thick, dash = null) {
  const at = painter.rect(box);
  if (!painter.visible(at)) return;
  const {pen} = painter;
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  if (dash) pen.setLineDash(dash);
  pen.strokeRect(at.x + thick / 2 - 1, at.y + thick / 2 - 1, at.w - thick + 2, at.h - thick + 2);
  if (dash) pen.setLineDash([]);
}

/** The topologies that a gang is held in: {here: whether in this one, or in none at all; others: by name}. */
export function heldIn(gang, topology) {
  const names = [...new Set((gang?.tree || []).map((row) => row.topology).filter(Boolean))];
  return {here: !names.length || names.includes(topology), others: names.filter((name) => name !== topology)};
}

/**
 * The boxes of a gang: {units: that show its pods, homes: the narrowest domains around, chosen: by its tree, bare:
 * homes that only stand for their nodes, and are no domains of it}.
 */
function placesOf(painter, domains, key, places) {
  const {index} = painter;
  const tree = index.frame.gangs[key]?.tree || [];
  // Held in domains of another topology, it has its nodes here, but no domains.
  const foreign = !heldIn(index.frame.gangs[key], domains.topology).here;
  for (const node of index.nodesOf.get(key) || []) {
    const box = index.box.get(node);
    if (!box) continue;
    const unit = unitOf(painter, box);
    places.units.add(unit);
    if (foreign && unit.kind === "domain") places.bare.add(unit);
    if (foreign) places.homes.add(unit);
    else places.homes.add(box.parent && box.parent.level >= 0 ? box.parent : box);
  }
  for (const row of tree) {
    const box = row.domain && row.topology === domains.topology ? domains.boxes.get(row.domain) : null;
    if (box) places.chosen.add(box);
  }
}

/** Fade everything but some boxes, none of which lies in another. */
function veil(painter, open, strength) {
  if (!open.length) return;
  const {pen, colours} = painter;
  pen.fillStyle = colours.bg;
  pen.globalAlpha = strength;
  pen.beginPath();
  pen.rect(0, 0, painter.width, painter.height);
  for (const box of new Set(open)) {
    const {x, y, w, h} = painter.rect(box);
    pen.rect(x, y, w, h);
  }
  pen.fill("evenodd");
  pen.globalAlpha = 1;
}

function lighten(painter, domains, {lit, found, near}) {
  const {pen, colours, index} = painter;
  const places = {units: new Set(), homes: new Set(), chosen: new Set(), bare: new Set()};
  for (const key of lit) placesOf(painter, domains, key, places);
  const foundBoxes = [...found].map((node) => index.box.get(node)).filter(Boolean);
  const nearBoxes = near.map(({where}) => domains.boxes.get(where)).filter(Boolean);
  const apart = (box) => ![...places.homes].some((home) => within(home, box) || within(box, home));
  veil(painter, [...places.homes, ...foundBoxes.map((box) => unitOf(painter, box)), ...nearBoxes.filter(apart)], 0.7);
  pen.globalAlpha = 0.45;
  for (const box of places.homes) {
    const {x, y, w, h} = painter.rect(box);
    pen.fillRect(x, y, w, h);
  }
  pen.globalAlpha = 1;
  for (const unit of places.units) paintOnly(painter, unit, lit);
  const colour = lit.size === 1 ? colours.gang[look([...lit][0]).colour] : colours.accent;
  const named = new Set();
  for (const box of [...places.homes, ...places.chosen]) {
    for (let up = box.kind === "domain" ? box : box.parent; up && up.level >= 0; up = up.parent) named.add(up);
  }
  for (const box of named) painter.repaintHeader(box, colours.text);
  for (const box of places.homes) if (!places.bare.has(box)) ring(painter, box, colour, 1.5);
  if (lit.size === 1) for (const box of places.chosen) ring(painter, box, colour, 3);
  for (const box of foundBoxes) ring(painter, unitOf(painter, box), colours.accent, 2);
}

/** The pods of some gangs in full strength. */
function paintOnly(painter, unit, lit) {
  const at = painter.rect(unit);
  if (!painter.visible(at)) return;
  if (unit.kind === "domain") {
    painter.bar(unit, at, lit);
    return;
  }
  const {index} = painter;
  const facts = index.frame.nodes[unit.name];
  if (!facts) return;
  const area = painter.slotsArea(unit, at, facts.slots);
  const entry = index.runs(unit.name);
  const runs = entry.runs.filter((run) => lit.has(run.key));
  for (const run of runs) painter.run(area, run);
  painter.labels(area, runs);
  if (area.detailed) {
    painter.nodeHead(unit, at, area, facts, entry);
    painter.dotsOf(entry, area, at, lit);
  }
}

/** The pods of the gang under the pointer, without a veil: moving the pointer must not make the page flicker. */
function outline(painter, key) {
  const {index, pen, colours} = painter;
  pen.strokeStyle = colours.text;
  pen.lineWidth = 1.5;
  const nodes = index.nodesOf.get(key) || [];
  if (nodes.size > 2000) return;
  for (const node of nodes) {
    const box = index.box.get(node);
    if (!box) continue;
    const unit = unitOf(painter, box);
    if (unit.kind === "domain") continue;
    const at = painter.rect(unit);
    if (!painter.visible(at)) continue;
    const area = painter.slotsArea(unit, at, index.frame.nodes[node]?.slots || 0);
    for (const run of index.runs(node).runs) {
      if (run.key === key)
        painter.pieces(area, run.from, run.to, (x, y, w, h) => pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1));
    }
  }
}

/** Where a gang that waits comes nearest to fitting: the domains, with what they have of what it needs. */
function paintNear(painter, domains, nearest, calm) {
  const {colours, pen} = painter;
  const places = nearest.map((one) => ({...one, box: domains.boxes.get(one.where)})).filter(({box}) => box);
  const outer = places.map(({box}) => box).filter((box) => !places.some((other) => within(box, other.box)));
  if (!calm) veil(painter, outer, 0.5);
  for (const {box, best, asked} of places) {
    ring(painter, box, colours.alarm, 2, [5, 3]);
    const at = painter.rect(box);
    const words = `${count(best)} of ${count(asked)}`;
    const wide = painter.measure(words, 12, 600) + 10;
    if (wide > at.w || at.h < 24) continue;
    pen.fillStyle = colours.alarm;
    pen.fillRect(at.x + at.w / 2 - wide / 2, at.y + at.h - 21, wide, 18);
    painter.text(words, at.x + at.w / 2, at.y + at.h - 11.5, 12, colours.panel, {weight: 600, align: "center"});
  }
}

function within(box, other) {
  for (let up = box.parent; up; up = up.parent) if (up === other) return true;
  return false;
}

/** What-if: its pods dashed, and who would have to go, outlined and crossed. Returns how many ghosts were painted. */
function paintGhost(painter, ghost, calm) {
  const {index} = painter;
  const byNode = new Map();
  const victims = new Set((ghost.victims || []).map(({gang, pod}) => `${gang} ${pod.slice(pod.indexOf("/") + 1)}`));
  const at = (node) => {
    if (!byNode.has(node)) byNode.set(node, {ghosts: []});
    return byNode.get(node);
  };
  for (const [key, name, node, row, slots] of ghost.pods || []) if (node) at(node).ghosts.push({key, name, row, slots});
  for (const {node} of ghost.victims || []) if (node) at(node);
  const places = [...byNode]
    .map(([node, {ghosts}]) => ({node, ghosts, box: index.box.get(node)}))
    .filter(({box}) => box);
  if (!calm)
    veil(
      painter,
      places.map(({box}) => unitOf(painter, box)),
      0.55,
    );
  let painted = 0;
  for (const {node, ghosts, box} of places) {
    painted += ghosts.length;
    paintPlace(painter, node, unitOf(painter, box), ghosts, victims);
  }
  return painted;
}

function paintPlace(painter, node, unit, ghosts, victims) {
  const {index, colours} = painter;
  const colour = ghosts.length ? colours.gang[look(ghosts[0].key).colour] : colours.alarm;
  const at = painter.rect(unit);
  if (!painter.visible(at)) return;
  if (unit.kind === "domain") {
    ring(painter, unit, colour, 2, [4, 2]);
    return;
  }
  const facts = index.frame.nodes[node];
  const area = painter.slotsArea(unit, at, facts.slots);
  const entry = index.runs(node);
  const runs = ghostRuns(entry, facts.slots, ghosts, victims);
  paintGhosts(painter, area, runs);
  for (const run of entry.runs) {
    if (run.key && victims.has(`${run.key} ${run.name}`))
      painter.pieces(area, run.from, run.to, (...at) => paintVictim(painter, ...at));
  }
  // Last, so that no cross goes through the letters.
  painter.labels(area, runs);
  ring(painter, unit, colour, area.detailed ? 2 : 1.5, [5, 3]);
}

function paintGhosts(painter, area, runs) {
  const {pen, colours} = painter;
  for (const run of runs) {
    if (area.detailed) {
      // A clean ground: the ghost stands where somebody still is.
      pen.fillStyle = colours.node;
      pen.globalAlpha = 0.75;
      painter.pieces(area, run.from, run.to, (x, y, w, h) => pen.fillRect(x, y, w, h));
      pen.globalAlpha = 1;
    }
    painter.run(area, run);
  }
}

/** A pod that would have to go: outlined and crossed. */
export function paintVictim(painter, x, y, w, h) {
  const {pen, colours} = painter;
  pen.fillStyle = colours.node;
  pen.globalAlpha = 0.6;
  pen.fillRect(x, y, w, h);
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.alarm;
  pen.lineWidth = 2;
  pen.strokeRect(x + 1, y + 1, w - 2, h - 2);
  if (Math.min(w, h) >= 5) painter.cross(x, y, w, h, colours.alarm, 1.5);
}
