// Lanes and counts of the panels: what is drawn of a gang's life and of its tree.
import assert from "node:assert/strict";
import test from "node:test";
import {clusters, stretches, ticks, wordOf} from "../../src/muster/serve/static/lanes.js";
import {childrenOf, digits, stepOf} from "../../src/muster/serve/static/parts.js";

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

test("what nobody does would be, and changes nothing", () => {
  const would = (second, kind) => ({...mark(second, kind), would: true});
  assert.deepEqual([wordOf(would(1, "evicted")), wordOf(mark(1, "evicted"))], ["would be evicted", "evicted"]);
  const found = stretches(lane(10, mark(10, "waiting"), would(20, "placed")), 0, 60 * S, null);
  assert.deepEqual(found, [["wait", 10 * S, 60 * S]]);
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

test("a gang that is stale now is short now", () => {
  assert.deepEqual(stretches(lane(10), 0, 20 * S, {state: "stale"}), [["short", 10 * S, 20 * S]]);
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

test("the rows below each row of a tree", () => {
  const deep = [-1, 0, 0, 2, 2].map((parent) => ({parent}));
  assert.deepEqual(childrenOf(deep), [[1, 2], [], [3, 4], [], []]);
});

test("keys are steps", () => {
  assert.equal(stepOf({key: "j"}), 1);
  assert.equal(stepOf({key: "ArrowUp"}), -1);
  assert.equal(stepOf({key: "End"}), Infinity);
  assert.equal(stepOf({key: "x"}), 0);
  assert.equal(digits(7, 1600), 5);
});
