// What several panels share: words and signs for states, ages that live, bars, commands to copy, long lists.
import {formatRoute} from "./delta.js";
import {ago, count, h, later, plural} from "./dom.js";
import {route, state} from "./state.js";

// A sign and a word for every state: colour only repeats what they say.
export const STATES = {
  pending: ["○", "pending"],
  held: ["‖", "held"],
  stale: ["◷", "stale"],
  fits: ["◔", "fits"],
  leaving: ["↘", "leaving"],
  partial: ["◐", "partial"],
  running: ["●", "running"],
  finished: ["✓", "finished"],
};

/** Whether what is shown stands still by its nature: a file, or a picture in a file. */
export function still() {
  return ["file", "frozen"].includes(state.live?.source?.kind);
}

/** The time that ages are counted to: now, or for a file and for the past the time of the frame. */
export function present() {
  return ((state.at !== null || still()) && Date.parse(state.frame?.at)) || Date.now();
}

/** How long ago something was, as an element that is kept true. */
export function age(at) {
  ticking ||= setInterval(tickAges, 1000);
  const when = Date.parse(at);
  if (Number.isNaN(when)) return h("span", {class: "age dim"}, "–");
  const words = ago(at, present());
  return h("time", {class: "age", datetime: at, title: new Date(when).toLocaleString()}, words);
}

let ticking = 0;

function tickAges() {
  if (document.hidden) return;
  const now = present();
  for (const one of document.querySelectorAll("time.age")) {
    const words = ago(one.dateTime, now);
    if (one.textContent !== words) one.textContent = words;
  }
}

/** The sign and the word of a state. */
export function stateMark(name) {
  const [sign, word] = STATES[name] || ["?", String(name)];
  return h(
    "span",
    {class: `state state-${STATES[name] ? name : "unknown"}`},
    h("i", {"aria-hidden": "true"}, sign),
    word,
  );
}

/** A name in text of its own direction, cut where there is no room, whole in the title. */
export function named(text, kind) {
  return h("bdi", {class: kind ? `name ${kind}` : "name", title: text}, text);
}

/** A gang's name, its namespace before it and quieter. */
export function gangName(key) {
  const cut = key.indexOf("/");
  const whole = h("span", {class: "gang-name", title: key});
  whole.append(h("bdi", {class: "dim"}, key.slice(0, cut + 1)), h("bdi", {class: "strong"}, key.slice(cut + 1)));
  return whole;
}

/** The address of a view; the moment and the topology that are looked at stay. */
export function address(view, ...parts) {
  const {at, topology} = route().query;
  return formatRoute({view, parts, query: {at, topology}});
}

/** Where a gang, named `namespace/name`, has its view. */
export function gangAddress(key) {
  const cut = key.indexOf("/");
  return address("gang", key.slice(0, cut), key.slice(cut + 1));
}

/** The selected gang of the frame, or null. */
export function chosenGang() {
  const gangs = state.frame?.gangs;
  return gangs && state.selected && Object.hasOwn(gangs, state.selected) ? gangs[state.selected] : null;
}

/** A gang that can be followed; plain text where the frame has no such gang. */
export function gangLink(key) {
  if (!state.frame || !Object.hasOwn(state.frame.gangs, key)) return h("span", {class: "gang-name"}, named(key));
  return h("a", {href: gangAddress(key), class: "gang-link"}, gangName(key));
}

/** A queue that can be followed, where it is known. */
export function queueLink(name) {
  const known = state.frame && Object.hasOwn(state.frame.queues, name);
  return known ? h("a", {href: address("queue", name), class: "gang-link"}, named(name)) : named(name);
}

/** A sentence of the scheduler: its first part stands out, the others follow, a line each. */
export function sentence(message) {
  const [first, ...rest] = String(message || "").split(" · ");
  return h(
    "div",
    {class: "sentence"},
    h("p", {}, first),
    rest.map((one) => h("p", {class: "dim"}, one)),
  );
}

/** A part of a panel with its title. */
export function section(title, ...inside) {
  return h("section", {class: "part"}, h("h3", {}, title), inside);
}

/** A part of a bar from `start` to `end` of `whole`, or null where there is none of it. */
export function piece(kind, start, end, whole) {
  if (!(end > start) || !(whole > 0)) return null;
  const part = h("i", {class: kind});
  part.style.left = `${(100 * start) / whole}%`;
  part.style.width = `${(100 * (Math.min(end, whole) - start)) / whole}%`;
  return part;
}

/** A line across a bar at a value, or null when it has no place on it. */
export function tick(kind, at, whole) {
  if (at === null || at === undefined || !(whole > 0) || at > whole) return null;
  const line = h("i", {class: `tick ${kind}`});
  line.style.left = `${(100 * at) / whole}%`;
  return line;
}

/** A bar that can be read out: pieces, what it measures, and the same in words. */
export function meter(kind, {now, most, words}, ...pieces) {
  const said = {
    role: "meter",
    "aria-valuemin": "0",
    "aria-valuemax": String(most),
    "aria-valuenow": String(Math.min(now, most)),
  };
  return h("span", {class: `bar ${kind}`, title: words, "aria-label": words, ...said}, pieces);
}

/** The rows directly below each row of a tree; parents stand before their children. */
export function childrenOf(tree) {
  const below = tree.map(() => []);
  tree.forEach((node, row) => node.parent >= 0 && below[node.parent]?.push(row));
  return below;
}

/** Have, minimum and total of a tree row as a bar: full to the minimum, lighter beyond it. */
export function podsBar(node) {
  const minimum = node.minimumPods;
  const whole = Math.max(node.total, minimum, node.have, 1);
  const waits = node.pending ? `, ${count(node.pending)} waiting` : "";
  const words = `${count(node.have)} placed${waits}, ${count(minimum)} needed, ${plural(node.total, "pod")} in all`;
  return meter(
    `pods ${node.satisfied ? "good" : "short"}`,
    {now: node.have, most: whole, words},
    piece("core", 0, Math.min(node.have, minimum), whole),
    piece("surplus", minimum, node.have, whole),
    minimum > 0 && tick("minimum", minimum, whole),
  );
}

/** `have / minimum / total`, each in its own column. */
export function podsNumbers(node) {
  const minimum = node.minimumPods;
  return h(
    "span",
    {class: "nums", title: `${count(node.have)} placed / ${count(minimum)} needed / ${count(node.total)} in all`},
    h("b", {}, count(node.have)),
    "/",
    h("b", {}, count(minimum)),
    "/",
    h("b", {class: "dim"}, count(node.total)),
  );
}

/** How many letters the longest of these numbers takes, so that they stand in columns. */
export function digits(...numbers) {
  return numbers.reduce((most, one) => Math.max(most, count(one).length), 2);
}

/** Whether a key press belongs to a field that is being written in. */
export function typing(event) {
  const at = event.target;
  return event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at?.tagName || "");
}

/** Whether the keys belong to the map: it has the focus. */
export function onMap() {
  return Boolean(document.activeElement?.closest?.(".map-stage"));
}

/** The step that a key means in a list (-1, 1, ±page, ends as ±Infinity), or 0. */
export function stepOf(event, page = 10) {
  const steps = {
    j: 1,
    ArrowDown: 1,
    k: -1,
    ArrowUp: -1,
    PageDown: page,
    PageUp: -page,
    Home: -Infinity,
    End: Infinity,
  };
  return steps[event.key] || 0;
}

/**
 * A long list of rows of one height that draws only those in sight. `set` takes items with a key; `sign` says of an
 * item what is seen of it: rows with an equal sign are kept.
 */
export function longList(box, {height, sign, draw}) {
  const rows = h("div", {class: "rows", role: "rowgroup"});
  const sizer = h("div", {class: "sizer", role: "presentation"}, rows);
  box.append(sizer);
  let items = [];
  let drawn = new Map();
  const soon = later(paint);
  const spare = 8;
  const tall = () => (typeof height === "function" ? height(box.clientWidth) : height);
  function paint() {
    const each = tall();
    const first = Math.max(0, Math.min(Math.floor(box.scrollTop / each) - spare, items.length));
    const last = Math.min(items.length, Math.ceil((box.scrollTop + box.clientHeight) / each) + spare);
    sizer.style.height = `${items.length * each}px`;
    rows.style.transform = `translateY(${first * each}px)`;
    const next = new Map();
    for (let at = first; at < last; at++) {
      const item = items[at];
      const now = `${at}\n${each}\n${sign(item)}`;
      const old = drawn.get(item.key);
      const row = old && old.now === now ? old : {now, element: draw(item, at)};
      row.element.style.height = `${each}px`;
      next.set(item.key, row);
    }
    drawn = next;
    const elements = [...next.values()].map((row) => row.element);
    const same = elements.length === rows.children.length && elements.every((one, at) => rows.children[at] === one);
    if (!same) rows.replaceChildren(...elements);
  }
  box.addEventListener("scroll", soon, {passive: true});
  new ResizeObserver(soon).observe(box);
  return {
    set(next) {
      items = next;
      paint();
    },
    reveal(at) {
      const each = tall();
      const top = at * each;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + each > box.scrollTop + box.clientHeight) box.scrollTop = top + each - box.clientHeight;
      paint();
    },
    paint,
  };
}

/** Runs `draw` at most once a frame, while shown, on these events of the state. */
export function whileShown(events, draw) {
  let route = null;
  const paint = () => route && draw(route);
  const again = later(paint);
  for (const name of events) state.on(name, () => route && again());
  return {
    show(next) {
      route = next;
      paint();
    },
    hide() {
      route = null;
    },
    again,
    get route() {
      return route;
    },
  };
}
