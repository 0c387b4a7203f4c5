// The page's frame: header, navigation, keys, sign-in, and which panels stand at which address.
import {dark, dress, setTheme, startTheme} from "./colours.js";
import {clock, command, count, empty, h, later, plural, problem, replace, say} from "./dom.js";
import {go, loadTimeline, matches, route, scrub, select, setSearch, signIn, start, state} from "./state.js";

const PANELS = {
  map: () => import("./map.js"),
  gangs: () => import("./gangs.js"),
  tree: () => import("./tree.js"),
  why: () => import("./why.js"),
  queues: () => import("./queues.js"),
  timeline: () => import("./timeline.js"),
  whatif: () => import("./whatif.js"),
};
// Panels of a view: those after the map stand in the side beside it.
const VIEWS = {
  map: ["map"],
  gangs: ["map", "gangs"],
  gang: ["map", "tree", "why"],
  whatif: ["map", "whatif"],
  queues: ["queues"],
  queue: ["queues"],
  timeline: ["map", "timeline"],
};
const NAVIGATION = [
  ["map", "Map", "m"],
  ["gangs", "Gangs", "g"],
  ["queues", "Queues", "q"],
  ["timeline", "Timeline", "t"],
  ["whatif", "What-if", "w"],
];
const KEYS = [
  ["m g q t w", "map, gangs, queues, timeline, what-if"],
  ["/", "search gangs and nodes"],
  ["Esc", "back: close, unselect, zoom out"],
  ["+ − 0 z", "on the map: zoom in, out, fit; z: to the chosen gang"],
  ["← ↑ → ↓", "on the map: move it"],
  ["Tab Enter", "on the map: next domain or node, go into it"],
  ["Backspace", "on the map: out of the domain"],
  ["[ ]", "earlier, later version"],
  ["n", "back to now"],
  ["d", "light or dark"],
  ["?", "these keys"],
];

const ui = {};
const mounted = new Map();

function build() {
  ui.source = h("span", {class: "source"});
  ui.connection = h("span", {class: "connection", role: "status", data: {testid: "connection"}});
  ui.numbers = h("div", {class: "numbers", "aria-label": "Summary"});
  ui.search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Search  /",
    "aria-label": "Search gangs and nodes",
    spellcheck: "false",
    autocomplete: "off",
    oninput: onSearch,
    onkeydown: onSearchKey,
  });
  ui.theme = h(
    "button",
    {type: "button", class: "quiet", title: "Light or dark (d)", "aria-label": "Light or dark", onclick: flipTheme},
    "◐",
  );
  ui.help = h(
    "button",
    {type: "button", class: "quiet", title: "Keys (?)", "aria-label": "Show the keys", onclick: showKeys},
    "?",
  );
  ui.past = h("div", {class: "past", role: "status", hidden: true});
  ui.notes = h("details", {class: "notes", hidden: true, data: {testid: "notes"}});
  ui.links = NAVIGATION.map(([view, text, key]) =>
    h("a", {href: `#/${view}`, data: {view}, "aria-keyshortcuts": key}, h("span", null, text), h("kbd", null, key)),
  );
  ui.first = h("div", {class: "first"});
  ui.side = h("aside", {class: "side", "aria-label": "Details"});
  ui.main = h("main", {id: "main", tabindex: "-1"}, ui.first, ui.side);
  ui.dialog = h(
    "dialog",
    {class: "keys", "aria-label": "Keys", onclick: (event) => event.target === ui.dialog && ui.dialog.close()},
    h("h2", null, "Keys"),
    h(
      "dl",
      null,
      KEYS.map(([keys, text]) => [h("dt", null, h("kbd", null, keys)), h("dd", null, text)]),
    ),
  );
  replace(
    document.getElementById("app"),
    h(
      "header",
      {class: "top"},
      h("a", {class: "brand", href: "#/map"}, "muster"),
      ui.source,
      ui.connection,
      ui.numbers,
      ui.search,
      ui.theme,
      ui.help,
    ),
    ui.past,
    ui.notes,
    h("nav", {"aria-label": "Views"}, ui.links),
    ui.main,
    ui.dialog,
  );
}

// ---- panels

/** Load and mount a panel once; a module that fails costs its own place only. */
function panel(name) {
  if (!mounted.has(name)) {
    const element = h("section", {class: `panel panel-${name}`, data: {panel: name}, hidden: true});
    (name === "map" || VIEWS[name]?.[0] === name ? ui.first : ui.side).append(element);
    mounted.set(name, {element, live: null, shown: false, loading: false});
  }
  return mounted.get(name);
}

async function load(name) {
  const held = panel(name);
  if (held.live || held.loading) return;
  held.loading = true;
  try {
    held.live = (await PANELS[name]()).mount(held.element);
    if (held.shown) held.live.show(route());
  } catch (error) {
    console.warn(`panel ${name}`, error);
    const hint = "Reload the page. If it stays, the installation is incomplete: pip install --force-reinstall muster";
    replace(
      held.element,
      problem({error: `The panel “${name}” could not be loaded`, hint}, () => location.reload()),
    );
  } finally {
    held.loading = false;
  }
}

function showPanels() {
  if (!state.frame || signedOut) return;
  const now = route();
  const wanted = VIEWS[now.view] || [];
  document.body.dataset.view = now.view;
  ui.main.classList.toggle("with-side", wanted.length > 1);
  for (const [name, held] of mounted) if (!wanted.includes(name)) attempt(held, false, now);
  tidy();
  if (!wanted.length)
    ui.first.append(empty("There is no such view", `The address names “${now.view}”. Press m for the map.`));
  for (const name of wanted) {
    panel(name);
    attempt(mounted.get(name), true, now);
    load(name);
  }
  for (const link of ui.links) {
    const mine = link.dataset.view === now.view || (now.view === "queue" && link.dataset.view === "queues");
    if (mine) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = [now.parts.join("/") || NAVIGATION.find(([view]) => view === now.view)?.[1], "muster"]
    .filter(Boolean)
    .join(" · ");
}

/** Take away what stands in the place of panels: sign-in, errors. */
function tidy() {
  for (const stale of [...ui.first.children]) if (!stale.dataset.panel) stale.remove();
}

function attempt(held, shown, now) {
  held.element.hidden = !shown;
  const was = held.shown;
  held.shown = shown;
  try {
    if (held.live && shown) held.live.show(now);
    else if (held.live && was) held.live.hide();
  } catch (error) {
    console.error(error);
  }
}

// ---- header

const WORDS = {
  live: "live",
  lost: "connection lost, trying again",
  file: "file",
  connecting: "connecting",
  signin: "not signed in",
};

const drawHeader = later(() => {
  const {frame} = state;
  ui.connection.dataset.state = state.connection;
  ui.connection.textContent = WORDS[state.connection] || state.connection;
  if (!frame) return;
  drawNotes(frame.reading);
  const {summary = {}, unit = {}, source = {}} = frame;
  ui.source.textContent = source.name || source.kind || "";
  ui.source.title = ui.source.textContent;
  const waits = summary.pending || 0;
  replace(
    ui.numbers,
    // Nobody is told of nodes who may not see them.
    summary.nodes === undefined
      ? null
      : [
          fact(count(summary.nodes), summary.nodes === 1 ? "node" : "nodes"),
          fact(`${count(summary.free)} / ${count(summary.slots)}`, `${unit.name || "slots"} free`),
        ],
    fact(count(summary.running), "running"),
    fact(count(waits), "pending", waits ? "warn" : "", "Without their minimum. Held and stale ones count apart"),
    summary.fits ? fact(count(summary.fits), "would fit", "", "The plan places them; nobody binds them here") : null,
    summary.held ? fact(count(summary.held), "held", "warn") : null,
    summary.stale ? fact(count(summary.stale), "stale", "warn") : null,
    summary.surplus ? fact(count(summary.surplus), "with surplus that waits", "", "They run") : null,
    summary.unasked ? fact(count(summary.unasked), "namespaces not asked about yet") : null,
  );
  const refusal = state.connection === "lost" && state.trouble?.status ? state.trouble : null;
  ui.past.hidden = state.at === null && !refusal;
  const refused = refusal && h("span", {class: "bad", role: "alert"}, `${refusal.error}. ${refusal.hint || ""} `);
  if (state.at === null) {
    replace(ui.past, refused);
    return;
  }
  const there = state.at === frame.version;
  const lost = !there && ui.lost && ui.lost.at === state.at ? ui.lost.error : null;
  replace(
    ui.past,
    refused,
    lost
      ? h("span", {class: "bad"}, `${lost.error}. ${lost.hint || ""}`)
      : h("span", null, `Looking back at version ${state.at}, ${there ? clock(frame.at) : "…"}`),
    h("button", {type: "button", onclick: () => scrub(null)}, "back to now ", h("kbd", null, "n")),
  );
});

/** What is to be known about the files, folded away until somebody wants to know, and for good when they do. */
function drawNotes(reading) {
  const sign = reading ? JSON.stringify(reading) : "";
  if (sign === ui.noted) return;
  ui.noted = sign;
  ui.notes.hidden = !reading;
  if (!reading) return;
  const {notes} = reading;
  const away = (event) => {
    event.preventDefault();
    ui.notes.hidden = true;
  };
  replace(
    ui.notes,
    h(
      "summary",
      null,
      h("b", null, `${plural(notes.length, "note")} about what was read`),
      h("span", {class: "first-note"}, [notes[0].what, notes[0].where && ` (${notes[0].where})`]),
      h("button", {type: "button", class: "quiet", title: "Dismiss", "aria-label": "Dismiss", onclick: away}, "✕"),
    ),
    h(
      "ul",
      null,
      notes.map(({what, where, says}) =>
        h("li", null, what, where && h("span", {class: "dim"}, ` (${where})`), says.map((one) => h("p", null, one))),
      ),
    ),
    h("p", null, "Everything that is to be said about it:"),
    command(reading.command),
  );
}

function fact(number, word, tint = "", title = null) {
  return h("span", {class: `fact ${tint}`, title}, h("b", null, number), ` ${word}`);
}

// ---- search

function onSearch() {
  setSearch(ui.search.value.trim());
  if (state.search && !["gangs", "map"].includes(route().view)) go("#/gangs");
}

function onSearchKey(event) {
  if (event.key === "Escape") {
    ui.search.value = "";
    setSearch("");
    ui.search.blur();
  } else if (event.key === "Enter" && state.frame && state.search) {
    const found = Object.keys(state.frame.gangs).filter((key) => matches(state.search, key, state.frame.gangs[key]));
    if (found.length === 1) select(found[0]);
    else if (found.length) go("#/gangs");
    else if (!Object.keys(state.frame.nodes).some((name) => name.includes(state.search))) say("nothing found");
    else go("#/map");
  }
}

// ---- keys

async function step(by) {
  // Only that knows how far back one can go.
  const line = await loadTimeline().catch(() => null);
  const now = state.at ?? state.live?.version;
  if (!now || !state.live) return;
  const target = Math.max(now + by, line?.first || 1);
  scrub(target >= state.live.version ? null : target);
}

function flipTheme() {
  setTheme(dark() ? "light" : "dark");
}

function showKeys() {
  if (ui.dialog.open) ui.dialog.close();
  else ui.dialog.showModal();
}

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const {target} = event;
  if (target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)))
    return;
  const view = NAVIGATION.find(([, , key]) => key === event.key);
  if (view) go(`#/${view[0]}`);
  else if (event.key === "/") ui.search.focus();
  else if (event.key === "?") showKeys();
  else if (event.key === "d") flipTheme();
  else if (event.key === "n") scrub(null);
  else if (event.key === "[") step(-1);
  else if (event.key === "]") step(1);
  else if (event.key === "Escape" && !ui.dialog.open && route().view === "gang") select(null);
  else return;
  event.preventDefault();
}

/** Plain links keep the version and the topology that are looked at. */
function onClick(event) {
  const link = event.target instanceof Element && event.target.closest("a[href^='#/']");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
}

// ---- sign-in and trouble

function showSignIn(error) {
  if (ui.first.querySelector(".sign-in") && !submitted) return; // somebody is typing
  submitted = false;
  const cluster = state.session && state.session.mode === "cluster";
  const field = h("input", {
    type: "password",
    name: "token",
    autocomplete: "off",
    required: true,
    "aria-label": cluster ? "Kubernetes token" : "Token",
    placeholder: cluster ? "eyJhbGciOi…" : "token",
  });
  const submit = (event) => {
    event.preventDefault();
    // people paste the whole address as often as the token
    const token = field.value
      .trim()
      .replace(/^.*#token=/, "")
      .replace(/&.*$/, "");
    submitted = Boolean(token);
    if (token) signIn(token);
  };
  const text = cluster
    ? "Sign in with a Kubernetes token; you see what your own rights allow. It is kept for this tab only."
    : "Open the address that muster printed when it started: it ends with #token=… Or paste it here.";
  for (const held of mounted.values()) attempt(held, false, route());
  ui.main.classList.remove("with-side");
  tidy();
  ui.first.append(
    h(
      "form",
      {class: "sign-in", onsubmit: submit, data: {testid: "sign-in"}},
      h("h1", null, "muster"),
      h("p", null, text),
      cluster
        ? h("pre", null, "kubectl create token NAME -n NAMESPACE")
        : h("pre", null, "http://127.0.0.1:PORT/#token=…"),
      h("div", {class: "row"}, field, h("button", {type: "submit", class: "primary"}, "Sign in")),
      error?.hadToken
        ? h("p", {class: "bad", role: "alert"}, `This token was refused: ${error.hint || error.error}.`)
        : null,
    ),
  );
  field.focus();
}

let signedOut = false;
let submitted = false;

function onFrame() {
  if (state.live) signedOut = false;
  if (state.frame && !signedOut) {
    dress(state.frame.gangs, state.ghost?.gangs);
    if (!onFrame.shown) {
      onFrame.shown = true;
      showPanels();
    }
  } else if (state.trouble && state.trouble.status !== 401) {
    tidy();
    ui.first.append(problem(state.trouble, () => start()));
  }
  drawHeader();
}

startTheme();
build();
addEventListener("keydown", onKey);
addEventListener("click", onClick);
state.on("frame", onFrame);
state.on("connection", () => {
  drawHeader();
  if (state.connection === "lost") say("connection lost");
});
state.on("signin", (error) => {
  onFrame.shown = false;
  signedOut = true;
  showSignIn(error);
});
state.on("route", () => {
  showPanels();
  drawHeader();
});
state.on("trouble", (error) => {
  ui.lost = {at: state.at, error}; // drawn with the header, which may be about to draw anyway
  drawHeader();
});
drawHeader();
start();
