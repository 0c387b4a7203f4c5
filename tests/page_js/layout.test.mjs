// The map's layout: every node once, nothing overlaps, children lie in their parents, any number of levels.
import assert from "node:assert/strict";
import test from "node:test";
import {commonTail} from "../../src/muster/serve/static/map_build.js";
import {
  fingerprint,
  layout,
  leafDomains,
  natural,
  slotGrid,
  structure,
} from "../../src/muster/serve/static/map_layout.js";

function cluster(widths, perLeaf, extra = {}) {
  const nodes = {};
  const walk = (path) => {
    if (path.length === widths.length) {
      for (let index = 0; index < perLeaf; index++) {
        nodes[`node-${Object.keys(nodes).length}`] = {paths: [path.length ? [...path] : null], slots: 8};
      }
      return;
    }
    for (let index = 0; index < widths[path.length]; index++) walk([...path, `${path.length}-${index}`]);
  };
  walk([]);
  return {...nodes, ...extra};
}

function boxes(root) {
  const found = [];
  const walk = (box) => {
    found.push(box);
    for (const child of box.children || []) walk(child);
  };
  walk(root);
  return found;
}

function overlap(one, two) {
  const slack = 1e-6;
  return (
    one.x + one.w > two.x + slack &&
    two.x + two.w > one.x + slack &&
    one.y + one.h > two.y + slack &&
    two.y + two.h > one.y + slack
  );
}

function check(nodes, levels, width, height) {
  const root = layout(structure(nodes, levels.length ? 0 : -1, levels), width, height, slotGrid(8));
  const all = boxes(root);
  const names = all.filter((box) => box.kind === "node").map((box) => box.name);
  assert.deepEqual([...names].sort(), Object.keys(nodes).sort(), "every node stands on the map once");
  for (const box of all) {
    assert.ok([box.x, box.y, box.w, box.h].every(Number.isFinite) && box.w > 0 && box.h > 0);
    for (const child of box.children || []) {
      assert.ok(child.x >= box.x - 1e-6 && child.y >= box.y - 1e-6, "inside on the left and above");
      assert.ok(
        child.x + child.w <= box.x + box.w + 1e-6 && child.y + child.h <= box.y + box.h + 1e-6,
        "inside on the right and below",
      );
    }
    const children = box.children || [];
    for (let one = 0; one < children.length; one++) {
      for (let two = one + 1; two < Math.min(children.length, one + 60); two++)
        assert.ok(!overlap(children[one], children[two]));
    }
  }
  assert.ok(root.w <= width + 1e-6 && root.h <= height + 1e-6, "the whole fits the view");
  return root;
}

for (const depth of [0, 1, 2, 3, 4, 5, 6]) {
  test(`a topology of ${depth} levels is covered without overlaps`, () => {
    const levels = Array.from({length: depth}, (_, level) => `level-${level}`);
    for (const [width, height] of [
      [1130, 700],
      [700, 700],
      [380, 900],
      [1600, 240],
    ])
      check(
        cluster(
          levels.map(() => 2),
          3,
        ),
        levels,
        width,
        height,
      );
  });
}

test("the demo cluster is readable at 1280 × 800: slots of at least 12 pixels", () => {
  const root = check(cluster([2, 2, 4], 4), ["zone", "block", "rack"], 1140, 690);
  const node = boxes(root).find((box) => box.kind === "node");
  assert.ok(node.w / 4.44 >= 12 && node.h / 2.94 >= 12);
});

test("5,000 nodes are on the map, each of at least four pixels", () => {
  const root = check(cluster([4, 10, 8], 16), ["zone", "block", "rack"], 1140, 690);
  const node = boxes(root).find((box) => box.kind === "node");
  assert.ok(node.w >= 4 && node.h >= 4);
});

test("domains of very different sizes still do not overlap", () => {
  const nodes = {};
  for (let index = 0; index < 200; index++)
    nodes[`n${index}`] = {paths: [[index < 150 ? "big" : `small-${index % 7}`]], slots: 8};
  check(nodes, ["rack"], 900, 600);
});

test("nodes without labels, or without the narrower ones, have boxes of their own", () => {
  const nodes = {...cluster([2, 2], 2), lost: {paths: [null], slots: 8}, half: {paths: [["0-1"]], slots: 8}};
  const root = check(nodes, ["zone", "rack"], 900, 600);
  const home = (name) => boxes(root).find((box) => box.name === name).parent;
  assert.equal(home("lost").name, "outside the topology");
  assert.equal(home("half").name, "no rack");
  assert.equal(home("half").parent.name, "0-1");
});

test("a level of host names draws no second border, but keeps the box of nodes without it", () => {
  const nodes = {};
  for (let index = 0; index < 6; index++) nodes[`n${index}`] = {paths: [[`rack-${index % 2}`, `n${index}`]], slots: 8};
  nodes.spare = {paths: [["rack-0"]], slots: 8};
  const root = check(nodes, ["rack", "hostname"], 900, 600);
  assert.deepEqual(
    leafDomains(root)
      .map((box) => box.name)
      .sort(),
    ["no hostname", "rack-0", "rack-1"],
  );
});

test("no nodes: an empty root", () => {
  assert.equal(layout(structure({}, -1, []), 800, 600, slotGrid(8)).children.length, 0);
});

test("names are in the order in which people count", () => {
  assert.deepEqual(["rack-10", "rack-9", "rack-1", "a", "rack-1b"].sort(natural), [
    "a",
    "rack-1",
    "rack-1b",
    "rack-9",
    "rack-10",
  ]);
});

test("every slot has a cell", () => {
  for (let slots = 1; slots <= 32; slots++) {
    const {columns, rows} = slotGrid(slots);
    assert.ok(columns * rows >= slots && (rows - 1) * columns < slots);
  }
  assert.deepEqual(slotGrid(8), {columns: 4, rows: 2});
});

test("the print of a frame changes with nodes and their domains, not with what runs there", () => {
  const nodes = cluster([2], 2);
  const print = fingerprint(nodes, 0);
  assert.equal(fingerprint({...nodes, "node-0": {...nodes["node-0"], free: 3}}, 0), print);
  assert.notEqual(fingerprint({...nodes, "node-0": {...nodes["node-0"], paths: [["0-1"]]}}, 0), print);
});

test("what all node names end with is left out on the map", () => {
  assert.equal(commonTail({"ip-1.ec2.internal": {}, "ip-2.ec2.internal": {}}), ".ec2.internal");
  assert.equal(commonTail({"a.x": {}, "b.y": {}}), "");
  assert.equal(commonTail({"a.x": {}, b: {}}), "");
  assert.equal(commonTail({}), "");
});
