// Who is on which node, kept up to date by deltas, and the sums of every domain. Pure: no canvas, no document.

const ORDER = {core: 0, surplus: 0, binding: 0, nominated: 2, leaving: 1};

/** Pods by node, and totals by box: made, filled, then put on the boxes of a layout by `stand`. */
export class Index {
  constructor(frame) {
    this.frame = frame;
    this.on = new Map(); // node → {pods: [{key, name, row, slots, state}], runs, over}
    this.nodesOf = new Map(); // gang → Set of nodes
    this.box = new Map(); // node → its box
  }

  /** Take in all gangs; a generator, because there can be many. */
  *fill() {
    let number = 0;
    for (const key in this.frame.gangs) {
      this.add(key, this.frame.gangs[key], null);
      if (++number % 100 === 0) yield;
    }
    return this;
  }

  add(key, gang, dirty) {
    if (!gang.pods || !gang.pods.length) return;
    const nodes = new Set();
    for (const [name, node, row, slots, state] of gang.pods) {
      if (!node) continue;
      let entry = this.on.get(node);
      if (!entry) this.on.set(node, (entry = {pods: [], runs: null}));
      entry.pods.push({key, name, row, slots: slots || 0, state});
      entry.runs = null;
      nodes.add(node);
      if (dirty) dirty.add(node);
    }
    this.nodesOf.set(key, nodes);
  }

  remove(key, dirty) {
    for (const node of this.nodesOf.get(key) || []) {
      const entry = this.on.get(node);
      entry.pods = entry.pods.filter((pod) => pod.key !== key);
      entry.runs = null;
      dirty.add(node);
    }
    this.nodesOf.delete(key);
  }

  /** Take over a changed frame; returns the nodes that look different. */
  update(frame, changed) {
    this.frame = frame;
    const dirty = new Set();
    for (const key of changed.gangs) {
      this.remove(key, dirty);
      if (frame.gangs[key]) this.add(key, frame.gangs[key], dirty);
    }
    for (const node of changed.nodes) {
      dirty.add(node);
      const entry = this.on.get(node);
      if (entry) entry.runs = null;
    }
    for (const node of dirty) this.resum(node);
    return dirty;
  }

  /** What covers the slots of a node: [{from, to, key, state, name, row}] from the left, key null for others' pods.
   *  Nominated pods overlap: they stand over what leaves and what is free. `free` is where free room begins. */
  runs(node) {
    let entry = this.on.get(node);
    if (!entry) this.on.set(node, (entry = {pods: [], runs: null}));
    if (entry.runs) return entry;
    const facts = this.frame.nodes[node];
    entry.pods.sort(byLook);
    const runs = [];
    let at = 0;
    let solid = 0;
    if (facts && facts.others > 0) {
      runs.push({from: 0, to: facts.others, key: null, state: "others", name: "", row: 0});
      at = solid = facts.others;
    }
    let reserved = null;
    for (const pod of entry.pods) {
      if (!pod.slots) continue;
      if (pod.state === "nominated") {
        if (reserved === null) reserved = solid;
        runs.push({
          from: reserved,
          to: reserved + pod.slots,
          key: pod.key,
          state: pod.state,
          name: pod.name,
          row: pod.row,
        });
        reserved += pod.slots;
        continue;
      }
      runs.push({from: at, to: at + pod.slots, key: pod.key, state: pod.state, name: pod.name, row: pod.row});
      at += pod.slots;
      if (pod.state !== "leaving") solid = at;
    }
    entry.runs = runs;
    entry.free = at;
    return entry;
  }

  /** What the map shows of a gang: [{node, from, to, state}]. */
  slotsOf(gang) {
    const found = [];
    for (const node of this.nodesOf.get(gang) || []) {
      for (const {key, from, to, state} of this.runs(node).runs) if (key === gang) found.push({node, from, to, state});
    }
    return found;
  }

  /** Connect with the boxes of a layout and sum up all domains. */
  stand(root) {
    this.box = new Map();
    const walk = (box) => {
      box.slots = box.free = box.nodes = box.unfit = 0;
      box.mix = null;
      if (box.kind === "node") {
        this.box.set(box.name, box);
        Object.assign(box, this.ownSums(box.name));
        return;
      }
      for (const child of box.children) {
        walk(child);
        box.slots += child.slots;
        box.free += child.free;
        box.nodes += child.nodes;
        box.unfit += child.unfit;
      }
    };
    walk(root);
  }

  ownSums(node) {
    const facts = this.frame.nodes[node];
    if (!facts) return {slots: 0, free: 0, nodes: 0, unfit: 0};
    // Room on a node that takes no pods is not free, whatever is left on it.
    const unfit = facts.state !== "ready" ? 1 : 0;
    return {slots: facts.slots || 0, free: unfit ? 0 : facts.free || 0, nodes: 1, unfit};
  }

  resum(node) {
    const box = this.box.get(node);
    if (!box) return;
    const now = this.ownSums(node);
    const by = {slots: now.slots - box.slots, free: now.free - box.free, unfit: now.unfit - box.unfit};
    Object.assign(box, now);
    for (let up = box.parent; up; up = up.parent) {
      up.slots += by.slots;
      up.free += by.free;
      up.unfit += by.unfit;
      up.mix = null;
    }
  }

  /** What a domain holds, largest first: [{key, state, slots}], for boxes too small to show nodes. */
  mix(box) {
    if (box.mix) return box.mix;
    const sums = new Map();
    const walk = (inner) => {
      if (inner.children) {
        inner.children.forEach(walk);
        return;
      }
      for (const {from, to, key, state} of this.runs(inner.name).runs) {
        if (state === "nominated") continue;
        const name = `${key || ""} ${state}`;
        const sum = sums.get(name);
        if (sum) sum.slots += to - from;
        else sums.set(name, {key, state, slots: to - from});
      }
    };
    walk(box);
    const largest = (one, two) =>
      (one.key === null) - (two.key === null) || two.slots - one.slots || (one.key < two.key ? -1 : 1);
    box.mix = [...sums.values()].sort(largest);
    return box.mix;
  }
}

function byLook(one, two) {
  return (
    ORDER[one.state] - ORDER[two.state] ||
    (one.key < two.key
      ? -1
      : one.key > two.key
        ? 1
        : one.row - two.row || (one.name < two.name ? -1 : one.name > two.name ? 1 : 0))
  );
}

/** Where what-if pods would stand on a node: free room first, then the room of victims. → [{from, to, key …}] */
export function ghostRuns(entry, slots, ghosts, victims) {
  const room = [];
  if (entry.free < slots) room.push([entry.free, slots]);
  for (const run of entry.runs) if (run.key && victims.has(`${run.key} ${run.name}`)) room.push([run.from, run.to]);
  const parts = [];
  for (const ghost of ghosts) {
    let need = ghost.slots;
    while (need > 1e-9 && room.length) {
      const [from, to] = room[0];
      const take = Math.min(need, to - from);
      parts.push({from, to: from + take, key: ghost.key, name: ghost.name, row: ghost.row, state: "ghost"});
      need -= take;
      if (from + take >= to - 1e-9) room.shift();
      else room[0][0] = from + take;
    }
  }
  return parts;
}
