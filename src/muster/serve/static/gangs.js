// The list of gangs: filtered, sorted, live, with one row for each and the reason beside it.
import {swatch} from "./colours.js";
import {count, empty, h, replace} from "./dom.js";
import {go, hover, matches, select, setSearch, state} from "./state.js";
import * as parts from "./parts.js";

const ORDER = Object.keys(parts.STATES);
const COLUMNS = [
  ["state", "State"],
  ["name", "Gang"],
  ["reason", "Why"],
  ["queue", "Queue"],
  ["position", "#", "Its turn among those that wait in its queue"],
  ["priority", "Priority"],
  ["pods", "Pods", "Placed / needed / in all"],
  ["age", "Age"],
];
// Rows are two lines high where there is no room for one.
const NARROW = 720;

/** What a gang is sorted by, per column; the smallest comes first. */
function rankOf(gang, key, column) {
  const state_ = ORDER.indexOf(gang.state);
  const waits = gang.position ?? 1e9;
  const created = Date.parse(gang.created) || 0;
  return {
    state: [state_, gang.queue, waits, -gang.priority, created, key],
    name: [key],
    reason: [gang.reason || "~", state_, key],
    queue: [gang.queue, state_, waits, key],
    position: [waits, gang.queue, key],
    priority: [-gang.priority, state_, key],
    pods: [-(gang.tree[0]?.total ?? 0), key],
    age: [-created, key],
  }[column];
}

function compare(left, right) {
  for (let at = 0; at < left.length; at++) {
    if (left[at] < right[at]) return -1;
    if (left[at] > right[at]) return 1;
  }
  return 0;
}

/** Everything that a row shows, as one string: equal strings need no new row. */
function signOf(gang) {
  const root = gang.tree[0] || {};
  return [
    gang.state,
    gang.reason,
    gang.message,
    gang.queue,
    gang.position,
    gang.priority,
    gang.created,
    root.have,
    root.minimumPods,
    root.total,
    root.satisfied,
    gang.tree.length,
  ].join("\t");
}

/** To be opened in another tab, too; with the keyboard one goes from row to row. */
function link(key) {
  const found = parts.gangLink(key);
  found.setAttribute("tabindex", "-1");
  return found;
}

function rowOf(key, gang, at, chosen) {
  const root = gang.tree[0] || {have: 0, minimumPods: 0, total: 0, satisfied: gang.satisfied};
  const why = gang.reason
    ? [h("b", {}, gang.reason), " ", h("span", {class: "dim"}, gang.message)]
    : h("span", {class: "dim"}, gang.message);
  const cell = (kind, ...inside) => h("span", {class: `cell ${kind}`, role: "gridcell"}, inside);
  return h(
    "div",
    {
      class: `row gang-row${chosen ? " chosen" : ""}`,
      role: "row",
      id: `gang-row-${at}`,
      "aria-rowindex": String(at + 2),
      "aria-selected": String(chosen),
      "data-testid": "gang-row",
      "data-gang": key,
    },
    cell("c-state", parts.stateMark(gang.state)),
    cell("c-name", swatch(key), link(key)),
    h("span", {class: "cell c-why", role: "gridcell", title: gang.message || ""}, why),
    cell("c-queue", parts.named(gang.queue || "")),
    cell("c-position", gang.position ? count(gang.position) : ""),
    cell("c-priority", count(gang.priority)),
    cell("c-pods", parts.podsBar(root), parts.podsNumbers(root)),
    cell("c-age", parts.age(gang.created)),
  );
}

/** The list itself: what is shown of it, in which order, and which row is chosen. */
class Gangs {
  constructor(element) {
    this.element = element;
    this.sort = "state";
    this.down = false;
    this.only = "";
    this.chosen = null;
    this.keys = [];
    this.chips = h("div", {class: "chips", role: "group", "aria-label": "States"});
    this.told = h("span", {class: "dim told", role: "status"});
    this.head = h("div", {class: "row head", role: "row"});
    this.box = h("div", {class: "list", tabindex: "0", role: "grid", "aria-label": "Gangs"});
    this.note = h("div", {class: "note-box", hidden: true});
    element.append(h("div", {class: "bar-top"}, this.chips, this.told), this.head, this.box, this.note);
    this.list = parts.longList(this.box, {
      height: (width) => (width < NARROW ? 48 : 27),
      sign: ({key, gang}) => `${signOf(gang)}\t${key === this.chosen}`,
      draw: ({key, gang}, at) => rowOf(key, gang, at, key === this.chosen),
    });
    this.panel = parts.whileShown(["frame", "select", "search"], () => this.draw());
    this.box.addEventListener("click", (event) => this.onClick(event));
    this.box.addEventListener("pointerover", (event) =>
      hover(event.target.closest(".gang-row")?.dataset.gang ?? null),
    );
    this.box.addEventListener("pointerleave", () => hover(null));
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(route) {
    const asked = route.query.sort || "state";
    const name = asked.replace("-", "");
    this.only = route.query.state || "";
    this.down = asked.startsWith("-");
    this.sort = COLUMNS.some(([one]) => one === name) ? name : "state";
    this.chosen ||= state.selected;
    this.drawHead();
    this.panel.show(route);
  }

  hide() {
    hover(null);
    this.panel.hide();
  }

  /** Shows other gangs, or in another order. The address says so; it is no step of its own in the history. */
  change(what) {
    Object.assign(this, what);
    const sorted = this.sort === "state" && !this.down ? "" : (this.down ? "-" : "") + this.sort;
    const query = Object.entries({state: this.only, sort: sorted}).filter(([, value]) => value);
    go(`#/gangs?${new URLSearchParams(query)}`, {instead: true});
    this.panel.again();
  }

  /** All gangs again. */
  clear() {
    const field = document.getElementById("search");
    if (field) field.value = "";
    setSearch("");
    this.change({only: ""});
  }

  draw() {
    const {frame} = state;
    if (!frame) return;
    const all = Object.entries(frame.gangs || {});
    const found = all.filter(([key, gang]) => matches(state.search, key, gang));
    const tally = {};
    for (const [, gang] of found) tally[gang.state] = (tally[gang.state] || 0) + 1;
    const shown = found
      .filter(([, gang]) => !this.only || gang.state === this.only)
      .map(([key, gang]) => ({key, gang, rank: rankOf(gang, key, this.sort)}))
      .sort((left, right) => compare(left.rank, right.rank));
    if (this.down) shown.reverse();
    const most = shown.reduce((sum, {gang}) => Math.max(sum, gang.tree[0]?.total ?? 0), 0);
    this.element.style.setProperty("--digits", parts.digits(most));
    this.keys = shown.map(({key}) => key);
    this.box.setAttribute("aria-rowcount", String(shown.length + 1));
    this.told.textContent = shown.length === all.length ? "" : `${count(shown.length)} of ${count(all.length)}`;
    this.drawChips(tally, found.length);
    this.say(all.length, shown.length);
    this.list.set(shown);
    this.mark();
  }

  drawHead() {
    const head = ([name, label, title]) => {
      const mine = this.sort === name;
      const arrow = h("i", {"aria-hidden": "true"}, mine ? (this.down ? " ↓" : " ↑") : "");
      const order = mine ? (this.down ? "descending" : "ascending") : "none";
      const sort = () => this.change({sort: name, down: mine && !this.down});
      const button = {type: "button", title: title || `Sort by ${label.toLowerCase()}`, onclick: sort};
      const kind = `cell c-${name === "reason" ? "why" : name}`;
      return h("span", {class: kind, role: "columnheader", "aria-sort": order}, h("button", button, label, arrow));
    };
    replace(this.head, COLUMNS.map(head));
  }

  drawChips(tally, all) {
    const chip = (name, inside, number) => {
      const pressed = this.only === name;
      const click = () => this.change({only: pressed ? "" : name});
      return h(
        "button",
        {type: "button", class: "chip", "aria-pressed": String(pressed), onclick: click},
        inside,
        " ",
        h("b", {}, count(number)),
      );
    };
    const states = ORDER.filter((name) => tally[name] || this.only === name);
    const next = [chip("", "all", all), ...states.map((name) => chip(name, parts.stateMark(name), tally[name] || 0))];
    const sign = next.map((one) => one.textContent + one.getAttribute("aria-pressed")).join();
    // Chips that did not change stay, so that they keep the focus.
    if (this.chips.dataset.sign === sign) return;
    const at = [...this.chips.children].indexOf(document.activeElement);
    replace(this.chips, next);
    this.chips.dataset.sign = sign;
    if (at >= 0) this.chips.children[at]?.focus();
  }

  /** What stands in the place of rows when there are none. */
  say(all, shown) {
    const nothing = !all ? "none" : !shown ? "filtered" : "";
    this.box.hidden = this.head.hidden = Boolean(nothing);
    this.chips.hidden = !all;
    this.note.hidden = !nothing;
    if (this.note.dataset.says === nothing) return;
    this.note.dataset.says = nothing;
    if (nothing === "none") replace(this.note, nobody());
    else if (nothing) {
      const button = h("button", {type: "button", onclick: () => this.clear()}, "Clear the filter");
      replace(this.note, h("div", {class: "empty"}, h("strong", {}, "No gang is like that"), h("p", {}, button)));
    }
  }

  /** Tells the list which row is chosen. */
  mark() {
    const at = this.keys.indexOf(this.chosen);
    if (at >= 0) this.box.setAttribute("aria-activedescendant", `gang-row-${at}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  move(step) {
    const last = this.keys.length - 1;
    if (last < 0) return;
    const from = this.keys.indexOf(this.chosen);
    const to = Math.max(0, Math.min(last, from < 0 ? (step > 0 ? 0 : last) : from + step));
    this.chosen = this.keys[to];
    this.mark();
    this.list.reveal(to);
  }

  open(key) {
    this.chosen = key;
    select(key);
  }

  onClick(event) {
    const row = event.target.closest(".gang-row");
    if (row && !String(getSelection())) this.open(row.dataset.gang);
  }

  onKey(event) {
    if (!this.panel.route || parts.typing(event) || event.defaultPrevented || parts.onMap()) return;
    const step = parts.stepOf(event);
    const here = [this.box, document.body, document.getElementById("main")].includes(document.activeElement);
    if (step) this.move(step);
    else if (event.key === "Escape" && (this.only || state.search)) this.clear();
    else if (event.key === "Enter" && this.chosen && here) this.open(this.chosen);
    else return;
    event.preventDefault();
  }
}

function nobody() {
  if (parts.still()) {
    const says = "There is no PodGroup in it, and no workload that becomes one. Add one:";
    return empty("No gangs in this file", says, "muster ui -f examples/cluster -f examples/inference.yaml");
  }
  const says = "Make a PodGroup and its pods, or submit a workload that becomes one; it shows up here at once.";
  return empty("No gangs yet", says, "kubectl apply -f examples/inference.yaml");
}

/** Puts the list into an element. */
export function mount(element) {
  return new Gangs(element);
}
