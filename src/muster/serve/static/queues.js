// Queues: what each holds, is due, is guaranteed and may have at most, and who waits there in which order.
import {swatch} from "./colours.js";
import {command, count, empty, h, plural, replace} from "./dom.js";
import {go, state} from "./state.js";
import * as parts from "./parts.js";

const UNITS = {gpu: ["GPU", 1, ""], cpu: ["CPU", 1000, ""], memory: ["Memory", 1000, " GB"]};
const WAITING = 5;
const MOST = 200;
// States of gangs that wait for something else than their turn: for pods, for people, for room that is being left.
const OUT = ["pending", "fits", "held", "stale"];
const LEGEND = [
  ["firm", "not preemptible"],
  ["soft", "preemptible minimum"],
  ["surplus", "surplus"],
  ["awaited", "coming"],
  ["wanted", "wanted beyond that"],
  ["borrowed", "borrowed, over quota"],
  ["tick fair", "fair share"],
  ["tick quota", "quota"],
  ["tick limit", "limit"],
];

/** An amount in the units of a Queue (millicores, 10^6 bytes, devices) as people say it. */
function amount(resource, value) {
  if (value === null || value === undefined) return "∞";
  const [, size, unit] = UNITS[resource] || ["", 1, ""];
  return `${count(value / size)}${unit}`;
}

function unitName(resource) {
  return UNITS[resource]?.[0] || resource;
}

/** How far the bar of a share goes: to the limit when that says something, else to the largest number that is known. */
function reach(share) {
  const known = Math.max(share.allocated + share.awaited, share.fairShare || 0, share.quota || 0);
  return share.limit !== null && share.limit < known * 4 + 1 ? Math.max(known, share.limit) : known;
}

/** The bands of a share's bar, [kind, from, to]: what is there, what comes on top of it, what is wanted beyond both. */
export function bands(share) {
  const {allocated, nonPreemptible, surplus, surplusNonPreemptible, awaited, requested, quota} = share;
  const minimum = allocated - surplus + surplusNonPreemptible;
  return [
    ["firm", 0, nonPreemptible - surplusNonPreemptible],
    ["firm hatched", nonPreemptible - surplusNonPreemptible, nonPreemptible],
    ["soft", nonPreemptible, minimum],
    ["surplus", minimum, allocated],
    ["awaited", allocated, allocated + awaited],
    ["wanted", allocated + awaited, requested],
    ...(quota !== null && allocated > quota ? [["borrowed", quota, allocated]] : []),
  ];
}

/** One resource of one queue as a bullet bar with its numbers. */
function shareRow(share, whole) {
  const {resource, allocated, nonPreemptible, surplus, awaited} = share;
  const borrowed = share.quota === null ? 0 : Math.max(0, allocated - share.quota);
  const said = [
    `${unitName(resource)}: ${amount(resource, allocated)} allocated`,
    `${amount(resource, nonPreemptible)} of it not preemptible`,
    `${amount(resource, surplus)} of it surplus`,
    `${amount(resource, awaited)} coming`,
    `${amount(resource, share.requested)} wanted`,
    `fair share ${amount(resource, share.fairShare)}`,
    `quota ${amount(resource, share.quota)}`,
    `limit ${amount(resource, share.limit)}`,
  ];
  const bar = parts.meter(
    "bullet",
    {now: allocated, most: whole, words: said.join(", ")},
    share.limit !== null && share.limit < whole ? parts.piece("beyond", share.limit, whole, whole) : null,
    bands(share).map(([kind, from, to]) => parts.piece(kind, from, to, whole)),
    parts.tick("quota", share.quota, whole),
    parts.tick("fair", share.fairShare, whole),
    parts.tick("limit", share.limit, whole),
  );
  const cell = (title, value, kind = "") =>
    h("span", {class: `n ${kind}`, "data-label": title, "aria-hidden": "true"}, value);
  return h(
    "div",
    {class: "share", "data-resource": resource},
    h("span", {class: "resource dim", "aria-hidden": "true"}, unitName(resource)),
    bar,
    cell("allocated", amount(resource, allocated), "strong"),
    cell("non-preemptible", amount(resource, nonPreemptible)),
    cell("surplus", amount(resource, surplus)),
    cell("coming", amount(resource, awaited)),
    cell("wanted", amount(resource, share.requested)),
    cell("fair share", amount(resource, share.fairShare)),
    cell("quota", amount(resource, share.quota), borrowed ? "over" : ""),
    cell("limit", amount(resource, share.limit)),
    h("span", {class: "borrows small"}, borrowed ? `borrows ${amount(resource, borrowed)}` : ""),
  );
}

/** Who waits, each with its place in line, 0 when it is not known: some in the line may be hidden. */
export function turns(waiting, gangs) {
  return waiting.map((key) => [key, (Object.hasOwn(gangs, key) && gangs[key].position) || 0]);
}

function line([key, place]) {
  return h("li", {}, h("b", {class: "place"}, place ? count(place) : ""), swatch(key), parts.gangLink(key));
}

/** Who waits, the first few of them. */
function waiters(queue, most) {
  const all = queue.waiting || [];
  const unseen = queue.unseen ? h("li", {class: "dim"}, `${count(queue.unseen)} that you may not see`) : null;
  if (!all.length && !unseen) return null;
  return h(
    "ol",
    {class: "waiters", "aria-label": "Waiting, in the order of their turns"},
    turns(all.slice(0, most), state.frame.gangs).map(line),
    all.length > most ? h("li", {class: "dim"}, `and ${count(all.length - most)} more`) : null,
    unseen,
  );
}

/** What is in a queue that has no shares: its gangs, and what they hold. */
function contents(queue) {
  const held = queue.held === undefined ? "" : ` · ${count(queue.held)} ${state.frame.unit.name} allocated`;
  return h("p", {class: "contents"}, `${plural(queue.gangs || 0, "gang")}${held}`);
}

function row(name, queue, scale, chosen) {
  const shares = (queue.shares || []).map((share) => shareRow(share, scale(share, queue)));
  const waiting = (queue.waiting || []).length + (queue.unseen || 0);
  const element = h(
    "div",
    {
      class: `queue-row${chosen ? " chosen" : ""}`,
      role: "group",
      "data-testid": "queue-row",
      "data-queue": name,
      "aria-label": `Queue ${name}`,
    },
    h(
      "div",
      {class: "queue-head"},
      h("a", {href: parts.address("queue", name), class: "strong"}, parts.named(name)),
      queue.displayName ? h("bdi", {class: "dim small title"}, queue.displayName) : null,
      waiting ? h("span", {class: "tag warn"}, `${plural(waiting, "gang")} wait${waiting === 1 ? "s" : ""}`) : null,
      queue.problem ? h("span", {class: "tag bad"}, "✗ ", queue.problem) : null,
    ),
    h("div", {class: "queue-shares"}, shares, shares.length ? null : contents(queue), waiters(queue, WAITING)),
  );
  element.style.setProperty("--depth", queue.depth);
  return element;
}

/** The one length for all bars of a resource, so that queues can be compared, or a length for each bar. */
function scales(queues, own) {
  const most = {};
  for (const queue of queues)
    for (const share of queue.shares || []) most[share.resource] = Math.max(most[share.resource] || 0, reach(share));
  return (share) => (own ? reach(share) : most[share.resource]) || 1;
}

function legend() {
  return h(
    "div",
    {class: "queue-legend small dim"},
    LEGEND.map(([kind, words]) =>
      h("span", {}, h("span", {class: "bar bullet sample"}, h("i", {class: kind})), words),
    ),
  );
}

function heads() {
  const titles = ["Allocated", "Non-preempt.", "Surplus", "Coming", "Wanted", "Fair share", "Quota", "Limit"];
  return h(
    "div",
    {class: "queue-row heads"},
    h("span"),
    h(
      "div",
      {class: "share head dim", "aria-hidden": "true"},
      h("span"),
      h("span"),
      titles.map((one) => h("span", {class: "n"}, one)),
      h("span"),
    ),
  );
}

/** One queue by itself: its bars, those below it, who waits with the reason, who runs. */
function detail(name, frame, own) {
  const queue = frame.queues[name];
  const below = inOrder(frame.queues).filter(([, one]) => one.parent === name);
  const length = scales(
    below.map(([, one]) => one),
    own,
  );
  const scale = scales([queue], true);
  const bars = (queue.shares || []).map((share) => shareRow(share, scale(share)));
  return [
    crumbs(name, frame.queues),
    queue.problem ? h("p", {class: "bad"}, "✗ ", queue.problem) : null,
    bars.length
      ? h(
          "div",
          {class: "queue-table own"},
          heads(),
          h("div", {class: "queue-row"}, h("span"), h("div", {class: "queue-shares"}, bars)),
        )
      : contents(queue),
    bars.length ? legend() : null,
    below.length
      ? parts.section(
          "Queues below it",
          h(
            "div",
            {class: "queue-table"},
            below.map(([one, other]) => row(one, {...other, depth: 0}, length, false)),
          ),
        )
      : null,
    lines(queue, frame, below.length > 0),
    others(name, queue, frame),
    parts.section(
      "What is written down for it",
      command(`kubectl get queues.scheduling.run.ai ${quoted(name)} -o yaml`),
    ),
  ];
}

/** The way from the top to a queue. */
function crumbs(name, queues) {
  const above = [];
  for (let up = queues[name].parent; up && Object.hasOwn(queues, up) && !above.includes(up); up = queues[up].parent)
    above.unshift(up);
  return h(
    "header",
    {class: "crumbs"},
    h("a", {href: parts.address("queues")}, "Queues"),
    above.map((one) => [" › ", parts.queueLink(one)]),
    " › ",
    parts.named(name, "strong"),
    queues[name].displayName ? h("bdi", {class: "dim title"}, queues[name].displayName) : null,
  );
}

/** A gang of the queue with its state and reason; those that wait have their place in line. */
function told([key, place], frame) {
  const gang = Object.hasOwn(frame.gangs, key) ? frame.gangs[key] : null;
  const why = gang ? [gang.reason ? `${gang.reason}: ` : "", gang.message] : "";
  return h(
    "li",
    {"data-gang": key},
    place ? h("b", {class: "place"}, count(place)) : null,
    swatch(key),
    parts.gangLink(key),
    gang ? parts.stateMark(gang.state) : null,
    h("span", {class: "dim cut", title: gang?.message}, why),
  );
}

function more(all) {
  return all > MOST ? h("p", {class: "dim"}, `and ${count(all - MOST)} more`) : null;
}

function lines(queue, frame, parent) {
  const waiting = queue.waiting || [];
  const nobodyWaits = parent ? "Gangs wait in the queues below it." : "Nobody waits in this queue.";
  const unseen = queue.unseen ? `${plural(queue.unseen, "gang")} more, in namespaces that you may not see.` : null;
  return parts.section(
    `Waiting (${count(waiting.length + (queue.unseen || 0))})`,
    h(
      "ol",
      {class: "waiters full"},
      turns(waiting.slice(0, MOST), frame.gangs).map((one) => told(one, frame)),
    ),
    more(waiting.length),
    h("p", {class: "dim"}, unseen || (waiting.length ? null : nobodyWaits)),
  );
}

function others(name, queue, frame) {
  const waiting = new Set(queue.waiting || []);
  const found = Object.entries(frame.gangs).filter(([key, gang]) => gang.queue === name && !waiting.has(key));
  found.sort(([one, a], [two, b]) => b.priority - a.priority || (one < two ? -1 : 1));
  if (!found.length) return null;
  return parts.section(
    `Its other gangs (${count(found.length)})`,
    h(
      "ul",
      {class: "waiters full"},
      found.slice(0, MOST).map(([key]) => told([key, 0], frame)),
    ),
    more(found.length),
  );
}

/** A name as a word of the shell: names of a cluster need nothing, others come in quotes. */
function quoted(name) {
  return /^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}

function inOrder(queues) {
  return Object.entries(queues || {}).sort(([one, a], [two, b]) => a.order - b.order || (one < two ? -1 : 1));
}

/** Who waits in all lines, and who else is counted above and stands in none. */
export function inLine({gangs, queues}) {
  const unseen = Object.values(queues).reduce((sum, queue) => sum + (queue.unseen || 0), 0);
  const tally = {};
  let waits = unseen;
  let surplus = 0;
  for (const gang of Object.values(gangs)) {
    waits += gang.position ? 1 : 0;
    surplus += gang.position && gang.satisfied ? 1 : 0;
    if (!gang.position && OUT.includes(gang.state)) tally[gang.state] = (tally[gang.state] || 0) + 1;
  }
  const only = surplus ? `, ${surplus === waits ? "" : `${count(surplus)} of them `}only with surplus` : "";
  const said = waits ? `${plural(waits, "gang")} wait${waits === 1 ? "s" : ""} in line${only}` : "nobody waits in line";
  const word = (name) => (name === "fits" ? "that would fit" : name);
  const out = Object.entries(tally).map(([name, number]) => `${count(number)} ${word(name)}`);
  return out.length ? `${said}; not in line: ${out.join(", ")}` : said;
}

function overview(all, own, chosen, toggle) {
  const length = scales(
    all.map(([, queue]) => queue),
    own,
  );
  const written = all.some(([, queue]) => (queue.shares || []).length);
  const title = "Each bar over its own length, or all over the same";
  const scale = h(
    "button",
    {type: "button", class: "chip", "aria-pressed": String(own), title, onclick: toggle},
    "own scale",
  );
  const none = all.some(([, queue]) => queue.problem)
    ? "No Queue that is written down can be used."
    : "Nobody wrote down a Queue: no quota, no limit, and every gang may use the whole cluster.";
  return [
    h(
      "div",
      {class: "bar-top"},
      h("span", {}, plural(all.length, "queue")),
      h("span", {class: "dim", data: {testid: "in-line"}}, inLine(state.frame)),
      written ? scale : null,
    ),
    written ? legend() : h("p", {class: "dim"}, none),
    h(
      "div",
      {class: "queue-table"},
      written ? heads() : null,
      all.map(([name, queue]) => row(name, queue, length, name === chosen)),
    ),
  ];
}

function nobody() {
  if (state.frame.mayNotSee?.includes("queues")) {
    const may = "Your rights do not let you list them:";
    return empty("No queues", may, "kubectl auth can-i list queues.scheduling.run.ai");
  }
  const says = "Nobody wrote down a Queue, so every gang may use the whole cluster. Queues share it between teams:";
  return empty("No queues", says, `${parts.still() ? "muster ui -f FILE" : "kubectl apply"} -f examples/queues.yaml`);
}

function unknown(name) {
  const says = "It was deleted, or its name is written differently.";
  return empty(`There is no queue ${name}`, says, "kubectl get queues.scheduling.run.ai");
}

/** All queues, or one of them, as the address says. */
class Queues {
  constructor(element) {
    this.own = false;
    this.sign = "";
    this.chosen = null;
    this.names = [];
    this.body = h("div", {class: "queues-body"});
    element.append(this.body);
    this.panel = parts.whileShown(["frame"], (route) => this.draw(route));
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(route) {
    this.panel.show(route);
  }

  hide() {
    this.panel.hide();
  }

  draw(route) {
    const {frame} = state;
    if (!frame) return;
    const name = route.view === "queue" ? route.parts[0] : null;
    const gangs = name ? Object.entries(frame.gangs).filter(([, gang]) => gang.queue === name) : [];
    const told = gangs.map(([key, gang]) => [key, gang.state, gang.message]);
    // Only what is seen decides whether it is drawn again.
    const places = Object.values(frame.queues).map((queue) => turns(queue.waiting || [], frame.gangs));
    const sign = JSON.stringify([name, this.own, this.chosen, frame.queues, places, told]);
    if (sign === this.sign) return;
    this.sign = sign;
    const all = inOrder(frame.queues);
    this.names = name ? [] : all.map(([one]) => one);
    const focused = this.body.contains(document.activeElement) && document.activeElement.closest("[data-queue]");
    if (name) replace(this.body, Object.hasOwn(frame.queues, name) ? detail(name, frame, this.own) : unknown(name));
    else replace(this.body, all.length ? overview(all, this.own, this.chosen, () => this.rescale()) : nobody());
    if (focused) this.focus(focused.dataset.queue);
  }

  rescale() {
    this.own = !this.own;
    this.panel.again();
  }

  focus(name) {
    this.body.querySelector(`[data-queue="${CSS.escape(name)}"] a`)?.focus();
  }

  onKey(event) {
    if (!this.panel.route || parts.typing(event) || event.defaultPrevented) return;
    const step = parts.stepOf(event);
    if (event.key === "Escape" && this.panel.route.view === "queue") go("#/queues");
    else if (this.names.length && step) {
      const to = Math.max(0, Math.min(this.names.length - 1, this.names.indexOf(this.chosen) + step));
      this.chosen = this.names[to];
      this.draw(this.panel.route);
      this.focus(this.chosen);
    } else return;
    event.preventDefault();
  }
}

/** Puts the queues into an element. */
export function mount(element) {
  return new Queues(element);
}
