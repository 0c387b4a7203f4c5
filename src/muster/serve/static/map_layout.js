// Where every domain and node stands on the map. Pure: names and paths in, boxes out; no canvas, no document.
// A box: {kind: "domain"|"node", name, path, level, parent, children, x, y, w, h, head, pad}; x and y are absolute, in
// pixels of the map at zoom 1. Boxes of one row share a height, so that rows read as rows.

const NODE_PAD = 0.22; // in slots
const NODE_HEAD = 0.72;
const LEAF_ASPECTS = [0.45, 0.8, 1.3, 2, 3.4];
const INNER_ASPECTS = [0.5, 0.9, 1.5, 2.6];

/** Compare names as people count: rack-2 before rack-10. */
export function natural(one, two) {
  const most = Math.min(one.length, two.length);
  let at = 0;
  while (at < most && one.charCodeAt(at) === two.charCodeAt(at)) at++;
  while (at > 0 && digit(one, at - 1)) at--; // the number in which they differ, from its first digit
  if (!digit(one, at) || !digit(two, at)) return one < two ? -1 : one > two ? 1 : 0;
  const [first, second] = [number(one, at), number(two, at)];
  return first - second || (one < two ? -1 : one > two ? 1 : 0);
}

function digit(text, at) {
  const code = text.charCodeAt(at);
  return code >= 48 && code <= 57;
}

function number(text, at) {
  let value = 0;
  for (; digit(text, at); at++) value = value * 10 + text.charCodeAt(at) - 48;
  return value;
}

function domain(name, path, level, parent, loose = false) {
  return {kind: "domain", name, path, level, parent, loose, children: [], x: 0, y: 0, w: 0, h: 0, head: 0, pad: 0};
}

/** The tree of boxes of a topology (its index in node.paths, or -1: flat); `levels` are its names, widest first. */
export function structure(nodes, topology, levels = []) {
  const steps = structureSteps(nodes, topology, levels);
  for (;;) {
    const {done, value} = steps.next();
    if (done) return value;
  }
}

/** The same as a generator that pauses now and then. */
export function* structureSteps(nodes, topology, levels) {
  const root = domain("", "", -1, null);
  const inner = new Map([["", root]]);
  const homeless = [];
  let number = 0;
  for (const name in nodes) {
    if (++number % 500 === 0) yield;
    const path = topology < 0 ? null : (nodes[name].paths || [])[topology];
    if (!path || !path.length) homeless.push(name);
    else home(inner, path, levels).children.push(nodeBox(name));
  }
  if (homeless.length) {
    const some = root.children.length ? domain("outside the topology", "\u0000outside", 0, root, true) : root;
    if (some !== root) root.children.push(some);
    for (const name of homeless) some.children.push(nodeBox(name));
  }
  yield;
  sortDomains(root);
  yield;
  if (levels.length) collapse(root);
  adopt(root);
  return root;
}

function nodeBox(name) {
  return {kind: "node", name, path: name, level: 99, parent: null, children: null, x: 0, y: 0, w: 0, h: 0};
}

function home(inner, path, levels) {
  let at = inner.get("");
  let full = "";
  for (let level = 0; level < path.length; level++) {
    full = level ? `${full}/${path[level]}` : path[level];
    let next = inner.get(full);
    if (!next) {
      next = domain(path[level], full, level, at);
      inner.set(full, next);
      at.children.push(next);
    }
    at = next;
  }
  if (path.length >= levels.length) return at;
  // It lacks the labels of narrower levels: a box of its own, so that it does not seem to be in one of them.
  const key = `${full}/\u0000`;
  if (!inner.has(key)) {
    const loose = domain(`no ${levels[path.length]}`, key, path.length, at, true);
    inner.set(key, loose);
    at.children.push(loose);
  }
  return inner.get(key);
}

function sortDomains(box) {
  const domains = box.children.filter((child) => child.kind === "domain");
  domains.sort((one, two) => one.loose - two.loose || natural(one.name, two.name));
  const nodes = box.children.filter((child) => child.kind === "node").sort((one, two) => natural(one.name, two.name));
  box.children = domains.length ? [...domains, ...nodes] : nodes;
  for (const child of domains) sortDomains(child);
}

/** A narrowest level with one node per domain (the host name) would only draw a second border around each node. */
function collapse(root) {
  const leaves = leafDomains(root).filter((leaf) => !leaf.loose);
  if (leaves.length < 2 || !leaves.every((leaf) => leaf.children.length === 1 && leaf !== root)) return;
  for (const leaf of leaves) {
    const siblings = leaf.parent.children;
    siblings[siblings.indexOf(leaf)] = leaf.children[0];
  }
}

function adopt(box) {
  for (const child of box.children) {
    child.parent = box;
    if (child.children) adopt(child);
  }
}

/** The domains that hold nodes directly. */
export function leafDomains(root) {
  const found = [];
  const walk = (box) => {
    if (box.children.some((child) => child.kind === "node")) found.push(box);
    for (const child of box.children) if (child.children) walk(child);
  };
  walk(root);
  return found;
}

/** A text that is equal for two frames only when they have the same boxes. */
export function fingerprint(nodes, topology) {
  const parts = [];
  for (const name in nodes) {
    const path = topology < 0 ? null : (nodes[name].paths || [])[topology];
    parts.push(path ? `${name}=${path.join("/")}` : name);
  }
  return parts.join("\n");
}

/** Columns and rows of the slots inside a node: about twice as wide as high, few holes. */
export function slotGrid(slots) {
  const many = Math.max(1, Math.ceil(slots));
  let best = null;
  for (let columns = 1; columns <= many; columns++) {
    const rows = Math.ceil(many / columns);
    const cost = Math.abs(Math.log(columns / rows / 1.8)) + ((columns * rows - many) / many) * 1.5;
    if (!best || cost < best.cost) best = {columns, rows, cost};
  }
  return {columns: best.columns, rows: best.rows};
}

/** Put `sizes` in rows, in order, so that they fit the aspect best. → {w, h, rows: [[from, to, height]]} */
function flow(sizes, gap, aspect) {
  let total = 0;
  let widest = 0;
  let alike = true;
  for (const size of sizes) {
    total += size.w + gap;
    widest = Math.max(widest, size.w);
    alike = alike && size.w === sizes[0].w && size.h === sizes[0].h;
  }
  if (alike) return gridOf(sizes.length, sizes[0], gap, aspect);
  let best = null;
  const most = Math.min(sizes.length, 90);
  for (let rows = 1; rows <= most; rows++) {
    const tried = shelves(sizes, gap, Math.max(widest, total / rows));
    const cost = Math.max(tried.w / aspect, tried.h);
    if (!best || cost < best.cost - 1e-9) best = {...tried, cost};
    if (tried.h > (4 * tried.w) / aspect) break;
  }
  return best;
}

function gridOf(number, {w, h}, gap, aspect) {
  let best = null;
  for (let columns = 1; columns <= number; columns++) {
    const lines = Math.ceil(number / columns);
    const wide = columns * (w + gap) - gap;
    const high = lines * (h + gap) - gap;
    const cost = Math.max(wide / aspect, high);
    if (!best || cost < best.cost - 1e-9) best = {w: wide, h: high, columns, cost};
  }
  best.rows = [];
  for (let from = 0; from < number; from += best.columns)
    best.rows.push([from, Math.min(number, from + best.columns), h]);
  return best;
}

function shelves(sizes, gap, limit) {
  const rows = [];
  let from = 0;
  let x = 0;
  let width = 0;
  let height = 0;
  let high = 0;
  for (let index = 0; index < sizes.length; index++) {
    const {w, h} = sizes[index];
    if (index > from && x + w > limit + 1e-6) {
      rows.push([from, index, high]);
      height += high + gap;
      [from, x, high] = [index, 0, 0];
    }
    width = Math.max(width, x + w);
    x += w + gap;
    high = Math.max(high, h);
  }
  rows.push([from, sizes.length, high]);
  return {w: width, h: height + high, rows};
}

/** Number the domains by shape: those that would be laid out alike share a number and are measured once. */
function shapes(root) {
  const known = new Map();
  const walk = (box) => {
    const parts = [box.level];
    for (const child of box.children) parts.push(child.kind === "node" ? "n" : walk(child));
    const text = parts.join(" ");
    if (!known.has(text)) known.set(text, known.size);
    return (box.shape = known.get(text));
  };
  walk(root);
}

/** Size a domain for one choice of aspects; `plans` remembers rows by shape. */
function measure(box, cell, trim, aspects, plans) {
  const known = plans.get(box.shape);
  if (known) return known.size;
  const nodesOnly = box.children.length > 0 && box.children[0].kind === "node";
  const aspect = box.level < 0 ? aspects.outer : nodesOnly ? aspects.leaf : aspects.inner;
  const {head, pad, gap} = trim(box, nodesOnly);
  const sizes = box.children.map((child) =>
    child.kind === "node" ? cell : measure(child, cell, trim, aspects, plans),
  );
  const rows = sizes.length ? flow(sizes, gap, aspect) : {w: 1, h: 1, rows: []};
  const size = {w: rows.w + 2 * pad, h: rows.h + head + 2 * pad};
  plans.set(box.shape, {rows, sizes, head, pad, gap, size});
  return size;
}

/** Write x, y, w, h of a box and of all below it: sizes are in slots, (sx, sy) makes them pixels. */
function place(box, x, y, w, h, plans, sx, sy) {
  box.x = x * sx;
  box.y = y * sy;
  box.w = w * sx;
  box.h = h * sy;
  if (box.kind === "node") return;
  const plan = plans.get(box.shape);
  box.head = plan.head * sy;
  box.pad = plan.pad * sy;
  let top = y + plan.head + plan.pad;
  for (const [from, to, high] of plan.rows.rows) {
    let left = x + plan.pad;
    for (let index = from; index < to; index++) {
      const {w: wide, h: own} = plan.sizes[index];
      const child = box.children[index];
      place(child, left, top, wide, child.kind === "node" ? own : high, plans, sx, sy);
      left += wide + plan.gap;
    }
    top += high + plan.gap;
  }
}

function best(root, cell, trim, aspect) {
  let found = null;
  for (const leaf of LEAF_ASPECTS) {
    for (const inner of INNER_ASPECTS) {
      const plans = new Map();
      const size = measure(root, cell, trim, {outer: aspect, leaf, inner}, plans);
      // Squarish domains are easier to see as one thing: a small price on extreme ones.
      const cost =
        Math.max(size.w / aspect, size.h) *
        (1 + 0.03 * Math.abs(Math.log(leaf / 1.3)) + 0.03 * Math.abs(Math.log(inner / 1.3)));
      if (!found || cost < found.cost) found = {size, plans, cost};
    }
  }
  return found;
}

/** Give every box its place in width × height pixels; `grid` is the slotGrid of the largest node. Returns the root. */
export function layout(root, width, height, grid) {
  const cell = {w: grid.columns + 2 * NODE_PAD, h: grid.rows + NODE_HEAD + NODE_PAD};
  const aspect = Math.max(0.2, width / Math.max(1, height));
  const plain = (box, nodesOnly) => ({
    head: box.level < 0 ? 0 : 0.9,
    pad: box.level < 0 ? 0 : 0.3,
    gap: nodesOnly ? 0.3 : 0.5,
  });
  shapes(root);
  const first = best(root, cell, plain, aspect);
  const unit = Math.min(width / first.size.w, height / first.size.h); // pixels of a slot, about
  const typical = typicalSizes(root, first.plans);
  const trim = (box, nodesOnly) => {
    if (box.level < 0) return {head: 0, pad: 0, gap: Math.max(0.3, 8 / unit)};
    const {w: wide, h: high} = typical.get(box.level) || {w: 1, h: 1};
    const low = Math.min(0.7, 20 / unit);
    // Where no words fit, no room is kept for them; zoomed in, the low header is high enough.
    const most = wide * unit < 60 ? low : Math.max(low, high * (!nodesOnly ? 0.22 : wide * unit > 110 ? 0.28 : 0.14));
    const head = Math.min(Math.max(low, 17 / unit), most);
    const pad = Math.min(Math.max(0.12, 4 / unit), Math.max(0.12, high * 0.035));
    return {
      head,
      pad,
      gap: nodesOnly ? Math.min(Math.max(0.16, 3 / unit), 0.5) : Math.max(pad, Math.min(5 / unit, high * 0.05)),
    };
  };
  const found = best(root, cell, trim, aspect);
  let sx = width / found.size.w;
  let sy = height / found.size.h;
  sx = Math.min(sx, sy * 1.7);
  sy = Math.min(sy, sx * 1.5);
  const limit = Math.min(1, 64 / Math.max(sx, sy)); // three nodes need no slots of the size of a hand
  place(root, 0, 0, found.size.w, found.size.h, found.plans, sx * limit, sy * limit);
  return root;
}

/** The middle width and height of the domains of each level. */
function typicalSizes(root, plans) {
  const all = new Map();
  const walk = (box) => {
    if (box.level >= 0 && !box.loose) {
      if (!all.has(box.level)) all.set(box.level, []);
      all.get(box.level).push(plans.get(box.shape).size);
    }
    for (const child of box.children) if (child.children) walk(child);
  };
  walk(root);
  const middle = (list, side) => list.map((size) => size[side]).sort((one, two) => one - two)[list.length >> 1];
  return new Map([...all].map(([level, list]) => [level, {w: middle(list, "w"), h: middle(list, "h")}]));
}
