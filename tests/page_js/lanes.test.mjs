// Lanes and counts of the panels: what is drawn of a gang's life and of its tree.
import assert from "node:assert/strict";
import test from "node:test";
import {clusters, stretches, ticks} from "../../src/muster/serve/static/lanes.js";
import {childrenOf, digits, minimumPods, stepOf} from "../../src/muster/serve/static/parts.js";

const S = 1000;
const at = (second) => new Date(second * S).toISOString();
const mark = (second, kind) => ({at: at(second), kind, version: second, text: kind});
const lane = (created, ...marks) => ({created: created === null ? null : at(created), marks});

test("a gang waits, is placed and runs", () => {
  const found = stretches(lane(10, mark(10, "created"), mark(20, "placed"), mark(22, "bound")), 0, 60 * S, null);
  assert.deepEqual(found, [
    ["wait", 10 * S, 20 * S],
    ["placing", 20 * S, 22 * S],
    ["run", 22 * S, 60 * S],
  ]);
});

test("who loses something first in the story ran before it", () => {
  const found = stretches(lane(null, mark(30, "below"), mark(40, "satisfied")), 5 * S, 50 * S, null);
  assert.deepEqual(found, [
    ["run", 5 * S, 30 * S],
    ["short", 30 * S, 40 * S],
    ["run", 40 * S, 50 * S],
  ]);
});

test("who runs and gets more pods still runs", () => {
  const found = stretches(lane(0, mark(1, "bound"), mark(5, "placed"), mark(6, "bound")), 0, 10 * S, null);
  assert.deepEqual(found, [
    ["wait", 0, S],
    ["run", S, 10 * S],
  ]);
});

test("a lane ends where its gang is gone, and marks after the end do not count", () => {
  const gone = lane(0, mark(1, "bound"), mark(5, "gone"));
  assert.deepEqual(stretches(gone, 0, 10 * S, null), [
    ["wait", 0, S],
    ["run", S, 5 * S],
  ]);
  assert.deepEqual(stretches(gone, 0, 3 * S, null), [
    ["wait", 0, S],
    ["run", S, 3 * S],
  ]);
});

test("a gang that is there all the time is what the frame says", () => {
  assert.deepEqual(stretches(lane(0), 0, 10 * S, {state: "running"}), [["run", 0, 10 * S]]);
  assert.deepEqual(stretches(lane(0), 0, 10 * S, {state: "held"}), [["wait", 0, 10 * S]]);
});

test("marks that meet are one, and the heaviest is seen", () => {
  const marks = [mark(0, "created"), mark(1, "evicted"), mark(1, "bound"), mark(50, "gone")];
  const found = clusters(marks, (ms) => ms / S, 13);
  assert.deepEqual(
    found.map((one) => [one.x, one.mark.kind, one.marks.length]),
    [
      [0, "evicted", 3],
      [50, "gone", 1],
    ],
  );
});

test("an axis has a few round moments, whatever its length", () => {
  for (const seconds of [2, 17, 60, 3600, 86400, 40 * 86400, 900 * 86400]) {
    const from = Date.UTC(2026, 10, 16, 3, 4, 5);
    const {step, found} = ticks(from, from + seconds * S, 1000);
    assert.ok(found.length >= 1 && found.length <= 12, `${seconds}: ${found.length}`);
    assert.ok(found.every((one) => one >= from && one <= from + seconds * S));
    assert.ok(found.every((one, index) => !index || one - found[index - 1] === step));
  }
});

test("the fewest pods of a tree: any k children, floors, and leaves", () => {
  const leaf = (parent, minimum) => ({parent, minimum, of: "pods"});
  const any = [{parent: -1, minimum: 2, of: "subGroups"}, leaf(0, 8), leaf(0, 3), leaf(0, 5)];
  assert.deepEqual(minimumPods(any), [8, 8, 3, 5]);
  const floor = [{parent: -1, minimum: 2, of: "subGroups", floor: 12}, leaf(0, 4), leaf(0, 4)];
  assert.deepEqual(minimumPods(floor), [12, 4, 4]);
  const branch = (parent, minimum) => ({parent, minimum, of: "subGroups"});
  const deep = [branch(-1, 2), leaf(0, 1), branch(0, 1), leaf(2, 3), leaf(2, 5)];
  assert.deepEqual(minimumPods(deep), [4, 1, 3, 3, 5]);
  assert.deepEqual(childrenOf(deep), [[1, 2], [], [3, 4], [], []]);
  assert.deepEqual(minimumPods([leaf(-1, 16)]), [16]);
});

test("keys are steps", () => {
  assert.equal(stepOf({key: "j"}), 1);
  assert.equal(stepOf({key: "ArrowUp"}), -1);
  assert.equal(stepOf({key: "End"}), Infinity);
  assert.equal(stepOf({key: "x"}), 0);
  assert.equal(digits(7, 1600), 5);
});
