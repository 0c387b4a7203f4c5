// What panels make of a frame before they draw it: the bands of a queue's bar, turns in a line, an example to try.
import assert from "node:assert/strict";
import test from "node:test";
import {dress, isDecent, look} from "../../src/muster/serve/static/colours.js";
import {noteOf} from "../../src/muster/serve/static/map_bar.js";
import {Camera, nearest} from "../../src/muster/serve/static/map_camera.js";
import {paintOver} from "../../src/muster/serve/static/map_over.js";
import {bands, inLine, turns} from "../../src/muster/serve/static/queues.js";
import {example} from "../../src/muster/serve/static/whatif.js";

const share = (more) => ({
  allocated: 0,
  nonPreemptible: 0,
  surplus: 0,
  surplusNonPreemptible: 0,
  awaited: 0,
  requested: 0,
  quota: null,
  ...more,
});

test("surplus that is not preemptible is hatched firm, the rest of the bar is exact", () => {
  const found = bands(share({allocated: 10, nonPreemptible: 6, surplus: 3, surplusNonPreemptible: 3, requested: 10}));
  assert.deepEqual(found, [
    ["firm", 0, 3],
    ["firm hatched", 3, 6],
    ["soft", 6, 10],
    ["surplus", 10, 10],
    ["awaited", 10, 10],
    ["wanted", 10, 10],
  ]);
  const both = bands(share({allocated: 10, nonPreemptible: 4, surplus: 5, surplusNonPreemptible: 1, requested: 12}));
  assert.deepEqual(both.slice(0, 4), [
    ["firm", 0, 3],
    ["firm hatched", 3, 4],
    ["soft", 4, 6],
    ["surplus", 6, 10],
  ]);
});

test("what comes stands behind what is there, and what is wanted behind that", () => {
  const found = bands(share({allocated: 1, awaited: 1, requested: 3, quota: 1}));
  assert.deepEqual(found, [
    ["firm", 0, 0],
    ["firm hatched", 0, 0],
    ["soft", 0, 1],
    ["surplus", 1, 1],
    ["awaited", 1, 2],
    ["wanted", 2, 3],
  ]);
  const over = bands(share({allocated: 4, requested: 4, quota: 1}));
  assert.deepEqual(over.at(-1), ["borrowed", 1, 4]);
});

test("a place in line is the gang's own, though not everybody in it can be seen", () => {
  const gangs = {"mine/z": {position: 4}, "mine/new": {position: null}};
  assert.deepEqual(turns(["mine/z", "mine/new", "mine/gone"], gangs), [
    ["mine/z", 4],
    ["mine/new", 0],
    ["mine/gone", 0],
  ]);
});

const frame = (more) => ({unit: {resource: "x/tpu"}, topologies: [], nodes: {}, queues: {}, gangs: {}, ...more});

test("an example is of this scheduler and in a namespace that can be seen", () => {
  const here = {mode: "token", namespace: "mine", schedulerName: "muster"};
  const text = example(frame(), here);
  assert.match(text, /namespace: "mine"/);
  assert.match(text, /schedulerName: "muster"/);
  assert.match(text, /"x\/tpu":1/);
  const seen = frame({gangs: {"theirs/a": {namespace: "theirs"}}});
  assert.match(example(seen, here), /namespace: "mine"/);
  assert.match(example(seen, {...here, mode: "cluster"}), /namespace: "theirs"/);
  assert.match(example(frame(), null), /namespace: "default"/);
});

test("the letters of what would come stand above the crosses of who would go", () => {
  const done = [];
  const entry = {runs: [{from: 0, to: 8, key: "default/low", name: "low-0", state: "core"}], free: 8};
  const box = {kind: "node", name: "n", parent: null};
  const pen = new Proxy({}, {get: () => () => {}, set: () => true});
  const note = (word) => () => done.push(word);
  const painter = {
    ...{pen, width: 100, height: 100, colours: {gang: []}, index: null, clear() {}, tooSmall: () => false},
    ...{rect: () => ({x: 0, y: 0, w: 80, h: 80}), visible: () => true, slotsArea: () => ({detailed: true})},
    ...{pieces: (area, from, to, fn) => fn(0, 0, 80, 40, true), run: note("ghost"), cross: note("cross")},
    labels: (area, runs) => done.push(`letters of ${runs.map((run) => run.name).join()}`),
  };
  painter.index = {box: new Map([["n", box]]), frame: {nodes: {n: {slots: 8}}, gangs: {}}, runs: () => entry};
  const ghost = {
    pods: [["default/top", "top-0", "n", 0, 8, "nominated"]],
    victims: [{gang: "default/low", pod: "low-0", node: "n"}],
  };
  const what = {lit: new Set(), found: new Set(), near: [], faint: null, ghost};
  assert.equal(paintOver(painter, null, {boxes: new Map()}, what), 1);
  assert.deepEqual(done, ["ghost", "cross", "letters of top-0"]);
});

test("no two gangs that are shown have the same letters", () => {
  const gangs = {};
  for (const name of ["secretproject", "secretwaiting", "a", "x", "pg-lat-5", "pg-lat-57", "pool-5"])
    gangs[`default/${name}`] = {};
  gangs["other/a"] = {};
  for (let at = 0; at < 2000; at++) gangs[`default/gang-${String(at).padStart(4, "0")}`] = {};
  dress(gangs);
  const labels = Object.keys(gangs).map((key) => look(key).label);
  assert.equal(new Set(labels).size, labels.length);
  assert.ok(labels.every((label) => label.length >= 1 && label.length <= 5), labels.find((one) => one.length > 5));
  assert.equal(look("default/secretproject").label, "sec");
  assert.equal(look("default/gang-0042").label, "g42");
  // When many are gone they leave the letters to others; who stays keeps them.
  dress({"default/secretwaiting": {}});
  const kept = look("default/secretwaiting").label;
  assert.equal(look("default/golf-00").label, "g00");
  assert.equal(look("default/secretwaiting").label, kept);
});

test("no label reads as a slur", () => {
  for (const name of ["nightly", "japan", "assistant", "n1ghtly", "fagin-0", "f-a-gate", "k-k-k8"]) {
    const {label} = look(`default/${name}`);
    assert.ok(isDecent(label), `${name}: ${label}`);
    assert.ok(label.length >= 1 && label.length <= 5, label);
  }
  assert.equal(look("default/inference").label, "inf");
  for (const label of ["nig", "NIG", "n1g", "4ss", "xkkk"]) assert.equal(isDecent(label), false, label);
});

test("who is not in a frame of the past looks the same afterwards", () => {
  const gangs = {"default/late": {created: "2026-01-02"}, "default/soon": {created: "2026-01-01"}};
  dress(gangs);
  const before = Object.keys(gangs).map((key) => ({...look(key)}));
  dress({});
  dress({"default/late": gangs["default/late"]});
  assert.deepEqual(Object.keys(gangs).map((key) => look(key)), before);
});

test("what is looked at stays in its place when the map is laid out anew", () => {
  const camera = new Camera(() => {});
  camera.resize(1000, 800, {w: 1000, h: 800});
  camera.most = 50;
  camera.zoom(5, 300, 300);
  const box = {x: 290, y: 290, w: 40, h: 20};
  const before = camera.at(box);
  assert.ok(camera.sees([box]) && !camera.sees([{...box, x: 900}]));
  // Narrower: everything stands elsewhere, and is smaller.
  const moved = {x: 100, y: 600, w: 20, h: 10};
  camera.resize(600, 800, {w: 600, h: 1200});
  camera.hold(moved, before);
  const {x, y, w, h} = camera.at(moved);
  const was = [before.x + before.w / 2, before.y + before.h / 2, before.w];
  assert.deepEqual([x + w / 2, y + h / 2, w].map(Math.round), was.map(Math.round));
  // What stood where the panel is now comes to the edge.
  camera.hold(moved, {...before, x: 900});
  assert.ok(camera.sees([moved]));
});

test("a gang that is held in another topology has nodes here, and no domains", () => {
  const rung = (topology, small = false) => {
    const rack = {kind: "domain", name: "rack-2", path: "rack-2", level: 0, parent: null};
    const box = {kind: "node", name: "n", parent: rack};
    rack.children = [box];
    const asked = new Set();
    let rings = 0;
    const pen = new Proxy({}, {get: (_, name) => () => (rings += name === "strokeRect"), set: () => true});
    const nothing = () => {};
    const painter = {
      ...{pen, width: 100, height: 100, colours: {gang: []}, clear: nothing, tooSmall: () => small},
      ...{visible: () => true, slotsArea: () => ({detailed: false})},
      ...{run: nothing, labels: nothing, repaintHeader: nothing, bar: nothing, measure: () => 0},
      rect: (one) => (asked.add(one.name), {x: 0, y: 0, w: 80, h: 80}),
    };
    const gang = {tree: [{topology, domain: "pdu-0"}]};
    const index = {nodesOf: new Map([["default/a", new Set(["n"])]]), box: new Map([["n", box]])};
    const frame = {nodes: {n: {slots: 8}}, gangs: {"default/a": gang}};
    painter.index = {...index, frame, runs: () => ({runs: []})};
    const what = {lit: new Set(["default/a"]), found: new Set(), near: [], faint: null, ghost: null};
    paintOver(painter, null, {topology: "dc", boxes: new Map([["rack-2", rack]])}, what);
    return {asked, rings};
  };
  assert.ok(rung("dc").asked.has("rack-2"));
  assert.ok(rung(null).asked.has("rack-2"));
  assert.deepEqual([...rung("power").asked], ["n"]);
  // Where the nodes are too small to be seen, their rack stands for them, and is not outlined as if it were chosen.
  assert.deepEqual([rung("dc", true).rings, rung("power", true).rings], [1, 0]);
});

test("a topology that is another one, or none, is told, with the way to the right one", () => {
  const frame = {topologies: [{name: "dc"}, {name: "power"}]};
  const gang = (...names) => ({tree: names.map((topology) => ({topology}))});
  assert.equal(noteOf(frame, undefined, "dc", gang("dc", null)), null);
  assert.equal(noteOf(frame, undefined, "dc", gang(null)), null);
  assert.equal(noteOf(frame, undefined, "dc", undefined), null);
  assert.equal(noteOf(frame, undefined, "dc", gang("gone")), null);
  const other = {words: "shown in dc; its levels are of power: switch", name: "power"};
  assert.deepEqual(noteOf(frame, undefined, "dc", gang("power")), other);
  assert.deepEqual(noteOf(frame, "-", null, gang("dc")).words, "shown flat; its levels are of dc: switch");
  assert.deepEqual(noteOf(frame, "dc", "dc", gang("dc", "power")), {words: "held in power too: switch", name: "power"});
  assert.deepEqual(noteOf(frame, "nope", "dc", null), {words: "there is no Topology nope: shown in dc"});
});

test("who zooms in beside everything comes to the nearest node", () => {
  const node = (x, y) => ({kind: "node", x, y, w: 40, h: 20});
  const rack = {kind: "domain", x: 0, y: 0, w: 100, h: 100, children: [node(5, 30), node(50, 30)]};
  const root = {kind: "domain", level: -1, x: 0, y: 0, w: 200, h: 100, children: [rack]};
  assert.deepEqual(nearest(root, 20, 10), [20, 30]);
  assert.deepEqual(nearest(root, 60, 40), [60, 40]);
  assert.deepEqual(nearest({...root, children: []}, 60, 40), [60, 40]);
  const camera = new Camera(() => {});
  camera.resize(200, 100, root);
  // On the title of the rack, and then between everything; however far.
  for (const [x, y] of [
    [20, 10],
    [150, 90],
    [199, 1],
  ]) {
    camera.set(camera.home());
    for (let turn = 0; turn < 12; turn++) camera.zoom(1.5, x, y);
    const seen = rack.children.some((one) => {
      const at = camera.at(one);
      return at.x < 195 && at.x + at.w > 5 && at.y < 95 && at.y + at.h > 5;
    });
    assert.ok(seen, `${x}, ${y}`);
  }
});

test("those in line and those that are not are all that wait", () => {
  const gang = (state, position, satisfied = false) => ({state, position, satisfied});
  const gangs = {a: gang("pending", 1), b: gang("partial", 2, true), c: gang("running", null, true)};
  assert.equal(inLine({gangs, queues: {}}), "2 gangs wait in line, 1 of them only with surplus");
  const held = {d: gang("held", null), e: gang("held", null), f: gang("pending", null), g: gang("stale", null)};
  const all = inLine({gangs: {...held, b: gangs.b}, queues: {q: {}}});
  assert.equal(all, "1 gang waits in line, only with surplus; not in line: 2 held, 1 pending, 1 stale");
  assert.equal(inLine({gangs: held, queues: {q: {unseen: 2}}}).split(";")[0], "2 gangs wait in line");
  assert.equal(inLine({gangs: {c: gangs.c}, queues: {}}), "nobody waits in line");
});
