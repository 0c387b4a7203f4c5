// Deltas, the event stream, addresses and the index of the map: what moves on by steps equals what is made anew.
import assert from "node:assert/strict";
import test from "node:test";
import {
  applyDelta,
  eventParser,
  extendTimeline,
  formatRoute,
  heldAnswer,
  matches,
  parseRoute,
} from "../../src/muster/serve/static/delta.js";
import {ghostRuns, Index} from "../../src/muster/serve/static/map_index.js";
import {layout, slotGrid, structure} from "../../src/muster/serve/static/map_layout.js";

function numbers(seed) {
  let value = seed;
  return (below) => {
    value = (Math.imul(value, 1664525) + 1013904223) >>> 0;
    return value % below;
  };
}

function frame() {
  const nodes = {};
  for (let index = 0; index < 12; index++) {
    nodes[`n${index}`] = {
      paths: [[`z${index % 2}`, `r${index % 4}`]],
      slots: 8,
      free: 8,
      others: 0,
      state: "ready",
      why: "",
    };
  }
  return {
    version: 1,
    decision: "",
    at: "",
    summary: {},
    unit: {name: "GPU"},
    topologies: [],
    nodes,
    gangs: {},
    queues: {},
  };
}

function someGang(random) {
  const states = ["core", "surplus", "binding", "nominated", "leaving"];
  const pods = Array.from({length: random(6)}, (_, index) => [
    `p${index}`,
    `n${random(12)}`,
    0,
    1 + random(2),
    states[random(5)],
  ]);
  return {queue: "q", state: "running", tree: [], pods};
}

function picture(index, root) {
  const nodes = {};
  for (const node in index.frame.nodes) nodes[node] = index.runs(node).runs;
  const sums = {};
  const walk = (box) => {
    sums[box.path] = [box.slots, box.free, box.unfit, index.mix(box)];
    for (const child of box.children || []) walk(child);
  };
  walk(root);
  return JSON.stringify([nodes, sums]);
}

test("a frame moved on by deltas equals the frame made anew, and so does what the map paints", () => {
  const random = numbers(7);
  const shown = frame();
  const root = layout(structure(shown.nodes, 0, ["zone", "rack"]), 900, 600, slotGrid(8));
  const index = new Index(shown);
  [...index.fill()];
  index.stand(root);
  for (let step = 2; step < 80; step++) {
    const delta = {
      version: step,
      from: step - 1,
      nodes: {set: {}, gone: []},
      gangs: {set: {}, gone: []},
      queues: {set: {}, gone: []},
    };
    for (let change = 0; change < 3; change++) {
      const key = `ns/g${random(6)}`;
      if (random(4) === 0) delta.gangs.gone.push(key);
      else delta.gangs.set[key] = someGang(random);
      const node = `n${random(12)}`;
      const others = random(3);
      delta.nodes.set[node] = {
        ...shown.nodes[node],
        others,
        free: random(8 - others),
        state: ["ready", "cordoned"][random(2)],
      };
    }
    const expected = structuredClone(shown);
    for (const key of delta.gangs.gone) delete expected.gangs[key];
    Object.assign(expected.gangs, delta.gangs.set);
    Object.assign(expected.nodes, delta.nodes.set);
    const changed = applyDelta(shown, delta);
    assert.deepEqual({...shown, version: 0}, {...expected, version: 0});
    index.update(shown, changed);
    const before = picture(index, root);
    const fresh = new Index(shown);
    [...fresh.fill()];
    fresh.stand(root);
    assert.equal(picture(fresh, root), before);
    index.stand(root);
  }
});

test("a changed topology or unit makes everything be looked at again", () => {
  assert.equal(applyDelta(frame(), {version: 2, topologies: []}), null);
  assert.deepEqual([...applyDelta(frame(), {version: 2, gangs: {set: {a: {}}, gone: ["b"]}}).gangs].sort(), ["a", "b"]);
});

test("all slots of all pods are visible: runs do not overlap and end where free room begins", () => {
  const shown = frame();
  shown.nodes.n0 = {...shown.nodes.n0, others: 2, free: 1};
  shown.gangs["ns/a"] = {
    pods: [
      ["a0", "n0", 0, 2, "core"],
      ["a1", "n0", 0, 1, "surplus"],
      ["a2", "n0", 0, 2, "leaving"],
      ["a3", "n0", 0, 3, "nominated"],
    ],
  };
  const index = new Index(shown);
  [...index.fill()];
  const {runs, free} = index.runs("n0");
  assert.deepEqual(
    runs.map(({from, to, state}) => [from, to, state]),
    [
      [0, 2, "others"],
      [2, 4, "core"],
      [4, 5, "surplus"],
      [5, 7, "leaving"],
      [5, 8, "nominated"],
    ],
  );
  assert.equal(free, 7);
});

test("a ghost takes free room first, then that of victims", () => {
  const shown = frame();
  shown.gangs["ns/a"] = {
    pods: [
      ["a0", "n0", 0, 4, "core"],
      ["a1", "n0", 0, 2, "core"],
    ],
  };
  const index = new Index(shown);
  [...index.fill()];
  const parts = ghostRuns(index.runs("n0"), 8, [{key: "ns/new", name: "x", row: 0, slots: 4}], new Set(["ns/a a0"]));
  assert.deepEqual(
    parts.map(({from, to}) => [from, to]),
    [
      [6, 8],
      [0, 2],
    ],
  );
});

function cyclesOf(from, to) {
  return Array.from({length: to - from + 1}, (_, at) => [from + at, `t${from + at}`, "d"]);
}

function marksOf(gang, from, to) {
  return cyclesOf(from, to).map(([version, at]) => ({gang, version, at, kind: "bound"}));
}

test("the timeline grows by deltas, once per version, and keeps what the server keeps", () => {
  const old = {gang: "ns/old", version: 1, kind: "bound"};
  const lanes = {"ns/old": {marks: [old]}, "ns/calm": {marks: [{...old, gang: "ns/calm"}]}};
  const timeline = {first: 1, cycles: cyclesOf(1, 1), lanes};
  for (let version = 2; version <= 20; version++) {
    const [cycles, marks] = [cyclesOf(version, version), marksOf("ns/a", version, version)];
    const delta = {version, from: version - 1, first: Math.max(1, version - 9), cycles, marks};
    for (let again = 0; again < 2; again++) assert.ok(extendTimeline(timeline, delta, {"ns/calm": {}}));
  }
  assert.deepEqual(timeline.cycles, cyclesOf(11, 20));
  assert.equal(timeline.first, 11);
  assert.deepEqual(timeline.lanes["ns/a"].marks, marksOf("ns/a", 11, 20));
  assert.deepEqual(Object.keys(timeline.lanes).sort(), ["ns/a", "ns/calm"]);
});

test("a delta over several versions brings them all, and none that is there", () => {
  for (const loadedAt of [1, 2, 3, 4, 5]) {
    const lanes = {"ns/a": {created: "t1", marks: marksOf("ns/a", 2, loadedAt)}};
    const timeline = {first: 1, cycles: cyclesOf(1, loadedAt), lanes};
    const delta = {version: 4, from: 1, first: 1, cycles: cyclesOf(2, 4), marks: marksOf("ns/a", 2, 4)};
    assert.ok(extendTimeline(timeline, delta, {}));
    const last = Math.max(4, loadedAt);
    assert.deepEqual(timeline.cycles, cyclesOf(1, last), `loaded at ${loadedAt}`);
    assert.deepEqual(timeline.lanes["ns/a"].marks, marksOf("ns/a", 2, last), `loaded at ${loadedAt}`);
  }
});

test("a timeline that lacks what was before a delta says so, and stays as it is", () => {
  const timeline = {first: 1, cycles: cyclesOf(1, 2), lanes: {}};
  const delta = {version: 6, from: 5, first: 1, cycles: cyclesOf(6, 6), marks: marksOf("ns/a", 6, 6)};
  assert.equal(extendTimeline(timeline, delta, {}), false);
  assert.deepEqual(timeline, {first: 1, cycles: cyclesOf(1, 2), lanes: {}});
});

test("events are cut out of the stream wherever it is torn", () => {
  const text = ': hello\n\nevent: delta\nid: 4\ndata: {"a":\ndata: 1}\n\nevent: bye\r\ndata: x\r\n\r\n';
  for (let cut = 0; cut <= text.length; cut++) {
    const found = [];
    const feed = eventParser((event) => found.push(event));
    feed(text.slice(0, cut));
    feed(text.slice(cut));
    assert.deepEqual(found, [
      {event: "delta", id: "4", data: '{"a":\n1}'},
      {event: "bye", id: null, data: "x"},
    ]);
  }
});

test("addresses survive there and back, also strange names", () => {
  for (const parts of [["ns", "name"], ["a b", "<img onerror=x>/%"], []]) {
    const made = {view: "gang", parts, query: {at: "4", topology: "a b"}};
    assert.deepEqual(parseRoute(formatRoute(made)), made);
  }
  assert.deepEqual(parseRoute(""), {view: "map", parts: [], query: {}});
  assert.deepEqual(parseRoute("#/gang/ns/%zz").parts, ["ns", "%zz"]);
});

test("the search matches all words in any field", () => {
  const gang = {queue: "train", state: "pending", verdict: "Infeasible", reason: "TopologyFragmented"};
  assert.ok(
    matches("train fragm", "ns/llama", gang) &&
      matches("", "ns/llama", gang) &&
      !matches("train prod", "ns/llama", gang),
  );
});

test("a frozen file answers what it holds, of its own version only", () => {
  const decision = {
    version: 3,
    bindings: [{gang: "ns/a"}, {gang: "ns/b"}],
    evictions: [{gang: "ns/b", for: "ns/a"}],
    words: [],
  };
  const held = {
    frame: {version: 3, source: {kind: "frozen"}},
    explanations: {"ns/a b": {x: 1}},
    decisions: {3: decision},
  };
  assert.equal(heldAnswer(held, "frame"), held.frame);
  assert.equal(heldAnswer(held, "frame?version=3"), held.frame);
  assert.equal(heldAnswer(held, "frame?version=2"), null);
  assert.deepEqual(heldAnswer(held, "gangs/ns/a%20b/explanation"), {x: 1});
  assert.equal(heldAnswer(held, "timeline"), null);
  assert.equal(heldAnswer(held, "decisions/3"), decision);
  assert.deepEqual(heldAnswer(held, "decisions/3?gang=ns%2Fa").bindings, [{gang: "ns/a"}]);
  assert.equal(heldAnswer(held, "decisions/3?gang=ns%2Fa").evictions.length, 1);
  assert.equal(heldAnswer(held, "decisions/4"), null);
});
