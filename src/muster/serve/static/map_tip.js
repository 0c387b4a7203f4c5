// The words beside the map: what is under the pointer, the legend, and the description for those who listen.
import {swatch} from "./colours.js";
import {count, h, plural} from "./dom.js";
import {paintVictim} from "./map_over.js";
import {palette, Painter} from "./map_paint.js";

const STATES = {
  core: "core",
  surplus: "surplus",
  binding: "being bound",
  nominated: "nominated: reserved, not bound",
  leaving: "leaving",
  others: "other pods",
  ghost: "would be placed here",
};
const LEGEND = [
  ["core", "core"],
  ["surplus", "surplus"],
  ["binding", "being bound"],
  ["nominated", "nominated"],
  ["leaving", "leaving"],
  ["others", "other pods"],
  ["free", "free"],
  ["cordoned", "cordoned"],
  ["notReady", "not ready"],
];

const NO_NODES = [
  "There are no nodes yet",
  "They appear here as soon as there are some. Without a cluster:",
  "muster demo",
];
const NOT_IN_FILE = [
  "No nodes in this file",
  "What is shown is what was in the files. With the nodes of a cluster:",
  "kubectl get nodes,pods,podgroups,queues,topologies -A -o yaml | muster ui -f -",
];
const HIDDEN = [
  "No nodes",
  "There are none, or your rights do not let you list them:",
  "kubectl auth can-i list nodes",
];

/** What to say where there are no nodes: a title, what to do, and the command that does it. */
export function noNodes(frame, session) {
  if (session?.mode === "cluster") return HIDDEN;
  return ["file", "frozen"].includes(frame.source?.kind) ? NOT_IN_FILE : NO_NODES;
}

/** The line of fillings under the map; `ghost`: also those of a what-if. */
export function legend(element, dpr, ghost) {
  const colours = palette(dpr);
  const more = ghost
    ? [
        ["ghost", "would be placed"],
        ["victim", "would have to go"],
      ]
    : [];
  element.replaceChildren(
    ...[...LEGEND, ...more].map(([state, words]) => {
      const canvas = h("canvas", {width: 22 * dpr, height: 12 * dpr, "aria-hidden": "true"});
      const painter = new Painter(canvas.getContext("2d"), colours, null, {columns: 1, rows: 1}, false);
      painter.aim({k: 1, x: 0, y: 0}, 22, 12, dpr);
      const plain = ["others", "free", "cordoned", "notReady", "victim"].includes(state);
      painter.fill(
        0,
        0,
        22,
        12,
        plain ? "core" : state,
        state === "others" ? colours.others : plain ? colours.slot : colours.gang[4],
      );
      if (state === "cordoned" || state === "notReady") {
        painter.unfit({x: 0, y: 0, w: 22, h: 12}, {detailed: true, x: 0, y: 0, w: 22, h: 12}, state);
      }
      if (state === "victim") paintVictim(painter, 0, 0, 22, 12);
      return h("span", null, canvas, words);
    }),
  );
}

function room(box, unit) {
  const words = [box.slots ? `${count(box.free)} of ${count(box.slots)} ${unit} free` : `no ${unit}`];
  if (box.kind === "domain") words.unshift(plural(box.nodes, "node"));
  if (box.unfit && box.kind === "domain") words.push(`${box.unfit} not usable`);
  return words.join(" · ");
}

function gangLine(key, number, state) {
  return h(
    "div",
    {class: "line"},
    swatch(key),
    h("span", null, key),
    h("span", {class: "num"}, `${count(number)}${state ? ` ${state}` : ""}`),
  );
}

/** What to say about {box, run, key}; `frame` and `index` as painted. */
export function about({box, run, key}, frame, index) {
  const unit = frame.unit ? frame.unit.name : "slots";
  if (box.kind === "domain") {
    const parts = index.mix(box).filter((part) => part.key);
    const sums = new Map();
    for (const part of parts) sums.set(part.key, (sums.get(part.key) || 0) + part.slots);
    const most = [...sums].sort((one, two) => (two[0] === key) - (one[0] === key) || two[1] - one[1]);
    return [
      h("b", null, box.path.includes("\u0000") ? box.name : box.path),
      h("div", {class: "dim"}, room(box, unit)),
      most.slice(0, 6).map(([name, slots]) => gangLine(name, slots)),
      most.length > 6 ? h("div", {class: "faint"}, `and ${most.length - 6} more`) : null,
    ];
  }
  const facts = frame.nodes[box.name] || {};
  const where = h("div", {class: "dim"}, [
    facts.state === "ready" || !facts.state
      ? null
      : h(
          "span",
          {class: "bad"},
          `${facts.state === "cordoned" ? "cordoned" : "not ready"}${facts.why ? `: ${facts.why}` : ""} · `,
        ),
    room(box, unit),
  ]);
  const path = box.parent && box.parent.level >= 0 && !box.parent.loose ? `${box.parent.path}/` : "";
  if (run && run.key) {
    const gang = frame.gangs[run.key];
    const row = gang && gang.tree && gang.tree[run.row];
    return [
      h("div", {class: "line"}, swatch(run.key), h("b", null, run.key)),
      h("div", null, run.name, row && row.name ? h("span", {class: "dim"}, ` · ${row.name}`) : null),
      h("div", {class: "dim"}, `${STATES[run.state]} · ${count(run.to - run.from)} ${unit}`),
      h("div", {class: "dim"}, `${path}${box.name}`),
      where,
    ];
  }
  const sums = new Map();
  for (const pod of index.runs(box.name).pods) sums.set(pod.key, (sums.get(pod.key) || 0) + pod.slots);
  return [
    h("b", null, `${path}${box.name}`),
    where,
    run ? h("div", {class: "dim"}, `${count(run.to - run.from)} ${unit} of other pods`) : null,
    [...sums].slice(0, 6).map(([name, slots]) => gangLine(name, slots)),
  ];
}

/** The same in one sentence, for the keyboard's place. */
export function sentence(box, frame) {
  const unit = frame.unit ? frame.unit.name : "slots";
  const kind = box.kind === "node" ? "node" : "domain";
  const state = box.kind === "node" && frame.nodes[box.name] ? frame.nodes[box.name].state : "ready";
  const unfit = state === "ready" ? "" : state === "cordoned" ? ", cordoned" : ", not ready";
  return `${kind} ${box.name}: ${room(box, unit)}${unfit}`;
}

/** Where a gang is, in words. */
export function whereabouts(key, frame, index, domains) {
  const gang = frame.gangs[key];
  if (!gang) return `${key} is not in this picture.`;
  const nodes = index.nodesOf.get(key) || new Set();
  if (!nodes.size) return `${key} has no pod on a node. ${gang.message || ""}`;
  const homes = new Set();
  for (const node of nodes) {
    const box = index.box.get(node);
    if (box && box.parent && box.parent.level >= 0) homes.add(box.parent.path);
  }
  const states = new Map();
  for (const [, , , , state] of gang.pods) states.set(state, (states.get(state) || 0) + 1);
  const list = [...homes].slice(0, 8).join(", ");
  return (
    `${key}: ${plural(gang.pods.length, "pod")} on ${plural(nodes.size, "node")}` +
    `${homes.size ? ` in ${list}${homes.size > 8 ? ` and ${homes.size - 8} more` : ""}` : ""}. ` +
    `${[...states].map(([state, number]) => `${number} ${STATES[state]}`).join(", ")}.` +
    `${domains.topology ? ` Topology ${domains.topology}.` : ""}`
  );
}
