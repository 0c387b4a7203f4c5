// A gang's tree: what every part has, needs and wants, where it is, and whether that is what was asked for.
import {count, empty, h, plural, replace} from "./dom.js";
import {state} from "./state.js";
import * as parts from "./parts.js";

// Trees larger than this begin with what is whole folded away.
const BIG = 40;
const AT_ONCE = 100;

/** What is asked of the topology at a row, where that led, and for how long it is below its minimum. */
function chipsOf(node, below, tree) {
  const chips = [];
  const chip = (kind, ...inside) => chips.push(h("span", {class: `tag ${kind}`}, inside));
  if (below.length) {
    const satisfied = below.filter((child) => tree[child].satisfied).length;
    const needs = node.of === "subGroups" && node.minimum < below.length ? `, any ${count(node.minimum)} needed` : "";
    chip("", `${count(satisfied)} of ${plural(below.length, "group")} satisfied${needs}`);
  }
  if (node.floor) chip("", `${plural(node.floor, "pod")} needed in all`);
  if (node.required) {
    const where = node.domain ? [": in ", parts.named(node.domain)] : "";
    chip(node.domain ? "good" : "", h("b", {"aria-hidden": "true"}, "▣"), ` one ${node.required} required`, where);
  }
  if (node.preferred) {
    const met = {true: ["✓", "good", "met"], false: ["✗", "warn", "not met"]}[node.preferredMet] || [
      "?",
      "",
      "not known",
    ];
    const where = !node.required && node.domain ? [": ", parts.named(node.domain)] : "";
    const [sign, kind, word] = node.preferredMet === null && node.have === 0 ? ["◇", "", "wanted"] : met;
    chip(kind, h("b", {"aria-hidden": "true"}, sign), ` prefers one ${node.preferred}: ${word}`, where);
  }
  if (!node.required && !node.preferred && node.domain) chip("", "in ", parts.named(node.domain));
  if (node.staleSince)
    chip("warn", h("b", {"aria-hidden": "true"}, "◷"), " below its minimum for ", parts.age(node.staleSince));
  return chips.length ? h("div", {class: "tags"}, chips) : null;
}

/** One row: sign, name, core, bar, numbers; below it the topology and what is wrong. */
function rowOf(gang, row, {below, twisty}) {
  const node = gang.tree[row];
  const name = row === 0 ? gang.name : node.name;
  const sign = node.satisfied ? "✓" : "✗";
  const word = node.satisfied ? "satisfied" : "below its minimum";
  // What is said of the whole gang stands above the tree and below it.
  const reasons = (node.reasons || []).filter((one) => row > 0 || one.message !== gang.message);
  const badge = node.core
    ? h("span", {class: "badge core", title: "Part of what makes up the minimum"}, "core")
    : row > 0 && h("span", {class: "badge", title: "Beyond the minimum"}, "surplus");
  const optional =
    node.optional && h("span", {class: "badge dashed", title: "Its gang can do without it"}, "optional");
  return h(
    "div",
    {class: "tree-row", "data-testid": "tree-row", "data-name": node.name, "data-satisfied": String(node.satisfied)},
    h(
      "div",
      {class: "tree-line"},
      twisty || h("span", {class: "twisty"}),
      h("i", {class: node.satisfied ? "sign good" : "sign bad", title: word, role: "img", "aria-label": word}, sign),
      parts.named(name, "strong"),
      badge,
      optional,
      h("span", {class: "gap"}),
      parts.podsBar(node),
      parts.podsNumbers(node),
    ),
    chipsOf(node, below[row], gang.tree),
    reasons.map((one) =>
      h(
        "p",
        {class: "reason", title: one.message},
        h("b", {}, one.code),
        one.message === gang.message ? null : [" ", h("span", {class: "dim"}, one.message.split(" · ")[0])],
      ),
    ),
  );
}

/** What somebody folded or opened in a tree: rows, how many children of a row are drawn, and the row with the focus. */
export function newFolds() {
  return {shut: new Map(), more: new Map(), focus: 0};
}

/** A gang's tree as elements; `changed` is called when something was folded or opened. */
class Tree {
  constructor(gang, folds, changed) {
    Object.assign(this, {gang, folds, changed, nodes: gang.tree, rows: []});
    this.below = parts.childrenOf(this.nodes);
    this.big = this.nodes.length > BIG;
  }

  draw() {
    const label = `Tree of ${this.gang.namespace}/${this.gang.name}`;
    const top = h("ul", {class: "tree", role: "tree", "aria-label": label}, this.item(0, 0, 0, 1));
    top.style.setProperty("--digits", parts.digits(this.nodes[0].total, this.nodes[0].minimumPods));
    top.addEventListener("keydown", (event) => this.onKey(event));
    top.addEventListener("click", (event) => {
      const found = this.rows.find((one) => one.element === event.target.closest("[role=treeitem]"));
      if (found) this.focus(found);
    });
    return top;
  }

  isShut(row) {
    if (this.folds.shut.has(row)) return this.folds.shut.get(row);
    return this.big && row > 0 && this.nodes[row].satisfied;
  }

  item(row, depth, place, of) {
    const node = this.nodes[row];
    const kids = this.below[row];
    const closed = kids.length > 0 && this.isShut(row);
    const toggle = (event) => {
      event?.stopPropagation();
      this.folds.shut.set(row, !closed);
      this.changed();
    };
    const twisty =
      kids.length > 0 && h("span", {class: "twisty", "aria-hidden": "true", onclick: toggle}, closed ? "▸" : "▾");
    const state_ = node.satisfied ? "satisfied" : "below its minimum";
    const pods = `${count(node.have)} of ${plural(node.total, "pod")}, ${count(node.minimumPods)} needed`;
    const said = {
      role: "treeitem",
      class: node.optional ? "optional" : "",
      tabindex: this.folds.focus === row ? "0" : "-1",
      "aria-level": depth + 1,
      "aria-posinset": place + 1,
      "aria-setsize": of,
      "aria-expanded": kids.length ? String(!closed) : null,
      "aria-label": `${node.name || this.gang.name}, ${state_}, ${pods}`,
    };
    const element = h("li", said, rowOf(this.gang, row, {below: this.below, twisty}));
    this.rows.push({row, element, kids, closed, toggle});
    if (kids.length && !closed) element.append(this.group(row, kids, depth));
    return element;
  }

  /** Children: all when they are few; of many the first, those that are not satisfied, and the rest on request. */
  group(row, kids, depth) {
    const many = kids.length > AT_ONCE || (this.big && kids.length > 12);
    const most = this.folds.more.get(row) ?? (many ? 0 : kids.length);
    const wrong = most < kids.length ? kids.filter((kid) => !this.nodes[kid].satisfied).slice(0, 8) : [];
    const drawn = new Set([...kids.slice(0, Math.max(most, many ? 4 : 0)), ...wrong]);
    const list = h("ul", {role: "group"});
    kids.forEach((kid, at) => drawn.has(kid) && list.append(this.item(kid, depth + 1, at, kids.length)));
    const rest = kids.filter((kid) => !drawn.has(kid));
    if (!rest.length) return list;
    const whole = rest.filter((kid) => this.nodes[kid].satisfied).length;
    const words = `… ${count(rest.length)} more: ${count(whole)} satisfied, ${count(rest.length - whole)} below`;
    const open = () => {
      this.folds.more.set(row, Math.min(kids.length, most + AT_ONCE));
      this.changed();
    };
    list.append(h("li", {class: "more", role: "none"}, h("button", {type: "button", onclick: open}, words)));
    return list;
  }

  focus(found) {
    for (const one of this.rows) one.element.tabIndex = one === found ? 0 : -1;
    this.folds.focus = found.row;
    found.element.focus();
  }

  /** Arrows as in every tree: up and down over what is seen, right opens, left closes or goes to the parent. */
  onKey(event) {
    const at = this.rows.findIndex((one) => one.element === document.activeElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = this.rows[at];
    const step = parts.stepOf(event);
    const parent = here.element.parentElement.closest("[role=treeitem]");
    const open = here.kids.length > 0 && !here.closed;
    if (step) this.focus(this.rows[Math.max(0, Math.min(this.rows.length - 1, at + step))]);
    else if (event.key === "Enter" || event.key === " ") here.kids.length && here.toggle();
    else if (event.key === "ArrowRight") here.closed ? here.toggle() : open && this.focus(this.rows[at + 1]);
    else if (event.key === "ArrowLeft")
      open ? here.toggle() : parent && this.focus(this.rows.find((one) => one.element === parent));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** A gang's tree as an element. */
export function drawTree(gang, folds = newFolds(), changed = () => {}) {
  return gang.tree.length ? new Tree(gang, folds, changed).draw() : empty("No tree", gang.message);
}

/** Puts the tree of the selected gang into an element. */
export function mount(element) {
  const folds = new Map();
  let sign = "";
  let last = null;

  function draw() {
    const key = state.selected;
    const gang = parts.chosenGang();
    if (!state.frame) return;
    if (!gang) {
      sign = "";
      replace(element, nobody(key));
      return;
    }
    if (sign && gang === last) return;
    last = gang;
    const next = `${key}\n${JSON.stringify(gang.tree)}\n${gang.state}${gang.queue}${gang.position}${gang.priority}`;
    if (next === sign) return;
    sign = next;
    if (!folds.has(key)) folds.set(key, newFolds());
    const kept = folds.get(key);
    const focused = element.querySelector(".tree")?.contains(document.activeElement);
    const again = () => {
      sign = "";
      draw();
    };
    replace(element, headOf(key, gang), drawTree(gang, kept, again));
    if (focused) element.querySelector("[role=treeitem][tabindex='0']")?.focus({preventScroll: true});
  }

  const panel = parts.whileShown(["frame", "select"], draw);
  return panel;
}

function nobody(key) {
  if (!key) return empty("No gang is chosen", "Click one on the map or in the list.");
  const gone = state.at === null ? "It is gone, or its name is written differently." : "It was not there then.";
  return empty(`There is no gang ${key}`, gone);
}

function headOf(key, gang) {
  const facts = [
    gang.verdict === "Infeasible" ? "infeasible, proven" : gang.verdict === "Undecided" && "undecided",
    gang.queue && ["queue ", parts.queueLink(gang.queue)],
    gang.position && `number ${count(gang.position)} in line`,
    `priority ${count(gang.priority)}`,
    gang.preemptibility,
    gang.created && ["created ", parts.age(gang.created), " ago"],
  ].filter(Boolean);
  return h(
    "header",
    {class: "gang-head"},
    h("h2", {}, parts.gangName(key)),
    h(
      "div",
      {class: "facts"},
      parts.stateMark(gang.state),
      gang.reason ? h("b", {class: "code"}, gang.reason) : null,
      facts.map((one) => h("span", {}, one)),
    ),
  );
}
