// What the page knows: the connection, the frame and its deltas, the selection and the address. Panels read `state`,
// listen with state.on(), and ask the server through api(); nothing else talks to the network.
import {
  applyDelta,
  eventParser,
  extendTimeline,
  formatRoute,
  heldAnswer,
  lastVersion,
  matches,
  parseRoute,
  plain,
} from "./delta.js";

export {matches};

const KEY = "muster.token";
const listeners = new Map();

/** The store. Events: frame, select, hover, ghost, connection, route, search, timeline, signin. */
export const state = {
  frame: null, // what is shown: of now, or of `at`
  live: null, // what is now, also while looking back
  timeline: null,
  selected: null,
  hovered: null,
  at: null,
  ghost: null,
  near: null, // {key, nearest}: the domains that come nearest for a gang that waits
  search: "",
  connection: "connecting", // "live" | "lost" | "file" | "connecting" | "signin"
  session: null, // answer of /api/session
  trouble: null, // Problem of the last load, or what the server says instead of letting us follow
  source: null,

  /** Call fn(detail) on every `event`; returns the function that stops it. */
  on(event, fn) {
    if (!listeners.has(event)) listeners.set(event, new Set());
    listeners.get(event).add(fn);
    return () => listeners.get(event).delete(fn);
  },
};

function emit(event, detail = null) {
  for (const fn of [...(listeners.get(event) || [])]) {
    try {
      fn(detail);
    } catch (error) {
      console.error(error); // one panel's fault must not stop the others
    }
  }
}

/** What the server (or the network) answered instead of what was asked for. */
export class Problem extends Error {
  constructor(error, hint = "", status = 0) {
    super(error);
    Object.assign(this, {error, hint, status});
  }
}

// ---- where answers come from

class Server {
  kind = "server";

  async ask(path, options = {}) {
    const headers = {...options.headers};
    const token = readToken();
    if (token) headers.Authorization = `Bearer ${token}`;
    let answer;
    try {
      answer = await fetch(`api/${path}`, {...options, headers, cache: "no-store", credentials: "omit"});
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem("muster does not answer", "Is it still running? The page tries again by itself.");
    }
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    const found = new Problem(said.error || `the server said ${answer.status}`, said.hint || "", answer.status);
    if (answer.status === 401) refused(token, found);
    throw found;
  }

  async json(path, options) {
    return (await this.ask(path, options)).json();
  }
}

/** A file made by `muster plan --html`: the answers are in the page, there is no network. */
class Frozen {
  kind = "frozen";

  constructor(text) {
    this.held = JSON.parse(text);
  }

  async json(path, options = {}) {
    const found = options.method === "POST" ? null : heldAnswer(this.held, path);
    if (found) return found;
    const asked = options.method === "POST" ? "This needs a running muster" : "This is not in the file";
    throw new Problem(asked, "The page is a frozen picture. Open the same files with: muster ui -f FILE", 404);
  }
}

/** Ask the API: api("gangs/ns/name/explanation"), api("what-if", {method: "POST", body: text}). Throws a Problem. */
export function api(path, options) {
  return state.source.json(path.replace(/^\/?(api\/)?/, ""), options);
}

/** The path of a gang's part of the API: gangPath("ns/name", "explanation"), with ?version= while looking back. */
export function gangPath(key, rest) {
  const path = `gangs/${key.split("/").map(encodeURIComponent).join("/")}/${rest}`;
  return state.at === null ? path : `${path}?version=${state.at}`;
}

// ---- the token

function inCluster() {
  return state.session?.mode === "cluster";
}

function onThisMachine() {
  return state.session?.mode === "token";
}

function readToken() {
  try {
    const ofTab = sessionStorage.getItem(KEY);
    if (inCluster()) return ofTab;
    const shared = localStorage.getItem(KEY);
    return onThisMachine() ? shared || ofTab : ofTab || shared;
  } catch {
    return state.token || null; // storage can be forbidden; then the token lives as long as the page
  }
}

/** Keep a token and load. One that may be a Kubernetes one, because nobody could say, is kept for this tab only. */
export function signIn(token) {
  clearInterval(waiting);
  state.token = token;
  try {
    (onThisMachine() ? localStorage : sessionStorage).setItem(KEY, token);
  } catch {
    // kept in state.token
  }
  return start();
}

let waiting = 0;

/** Nobody knows the token. Another tab may open the address of the new server: then its token is here too. */
function refused(token, problem) {
  problem.hadToken = Boolean(token);
  state.live = null; // what was seen with another token is not gone on with
  clearInterval(waiting);
  waiting = setInterval(() => {
    if (readToken() === token) return;
    clearInterval(waiting);
    start();
  }, 1000);
  emit("signin", problem);
}

/** Nobody gave a token yet: no need to ask the server what it says to that. */
function noToken() {
  const found = new Problem("There is no token", "", 401);
  refused(null, found);
  return found;
}

/** `#token=…` of the printed address is taken over and out of it, so that it is in no history or screenshot. Was
 *  there one? */
function takeToken() {
  const found = /^#token=([^&]+)&?(.*)$/.exec(location.hash);
  if (!found) return false;
  state.token = plain(found[1]);
  try {
    sessionStorage.removeItem(KEY);
    localStorage.setItem(KEY, state.token);
  } catch {
    // kept in state.token
  }
  history.replaceState(null, "", `${location.pathname}${location.search}#${found[2] || "/map"}`);
  return true;
}

/** The address changed: another view, or the address of another server (or its next start) was pasted here. */
function onAddress() {
  if (!takeToken()) return readRoute();
  following?.abort();
  clearInterval(waiting);
  state.live = state.timeline = loading = missed = null;
  return start();
}

// ---- frame and deltas

function connection(now) {
  if (state.connection === now) return;
  state.connection = now;
  emit("connection", now);
}

function restingConnection() {
  const kind = state.live && state.live.source ? state.live.source.kind : "live";
  return kind === "file" || kind === "frozen" ? "file" : "live";
}

function setLive(frame) {
  state.live = frame;
  state.trouble = null;
  if (state.at !== null) return;
  state.frame = frame;
  emit("frame", null);
}

function takeDelta(delta) {
  if (!state.live || delta.version <= state.live.version) return true;
  if (delta.from !== state.live.version) return false;
  const changed = applyDelta(state.live, delta);
  missed?.push(delta);
  if (state.timeline) {
    // Without what lies between it can't go on.
    const whole = extendTimeline(state.timeline, delta, state.live.gangs);
    if (!whole && !loading) refetchTimeline();
    emit("timeline");
  }
  if (state.at === null) emit("frame", changed);
  return true;
}

let following = null;

/** Follow /api/events for ever: resume after the last version, wait longer after each failure. */
async function follow() {
  if (following) following.abort();
  const mine = (following = new AbortController());
  let wait = 500;
  for (let tried = 0; !mine.signal.aborted; tried++) {
    try {
      if (tried) await meetAgain();
      // What is new to this frame depends on the rights by which it was seen, too.
      const since = state.live ? [state.live.version, state.live.rights].filter(Boolean).join("-") : "";
      const answer = await state.source.ask(
        `events?since=${since}&run=${encodeURIComponent(state.session?.run || "")}`,
        {
          signal: mine.signal,
          headers: {Accept: "text/event-stream", "Last-Event-ID": String(since)},
        },
      );
      state.trouble = null;
      connection(restingConnection());
      wait = 500;
      await readEvents(answer.body, mine);
    } catch (error) {
      if (error.status === 401) connection("signin");
      if (mine.signal.aborted || error.status === 401) return;
      // Whoever answers and refuses says why, and what to do.
      state.trouble = error.status ? error : null;
      if (state.trouble) emit("trouble", error);
    }
    connection("lost");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 8000);
  }
}

/** After a break: a server of another run counts versions anew, so nothing that is known may be built on. */
async function meetAgain() {
  const session = await api("session");
  const same = state.session && state.session.run === session.run;
  state.session = session;
  if (same) return;
  const wasLoaded = state.timeline || loading;
  state.timeline = null;
  if (state.at !== null) scrub(null);
  setLive(await api("frame"));
  if (wasLoaded) refetchTimeline();
}

async function readEvents(body, mine) {
  let torn = false;
  const feed = eventParser(({event, data}) => {
    if (event === "frame") {
      // Nobody tells what lies between: other versions, or what somebody with other rights may see.
      setLive(JSON.parse(data));
      if (state.timeline || loading) refetchTimeline();
    } else if (event === "delta") torn = !takeDelta(JSON.parse(data)) || torn;
    else if (event === "bye") torn = true;
    if (state.connection === "lost") connection(restingConnection());
  });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done || mine.signal.aborted) return;
    feed(value);
    if (!torn) continue;
    await reader.cancel();
    return; // follow() asks again from the version that we have
  }
}

let loading = null;
let missed = null; // deltas that came while the timeline was asked for

/** Load the timeline once; deltas keep it up to date from then on. */
export async function loadTimeline() {
  return state.timeline || (loading ||= fetchTimeline());
}

async function fetchTimeline() {
  const mine = (missed = []);
  try {
    const found = await api("timeline");
    if (mine !== missed) return loading || state.timeline; // asked again since: that one counts
    for (const delta of mine) extendTimeline(found, delta, state.live?.gangs);
    state.timeline = found;
    emit("timeline");
    return found;
  } finally {
    if (mine === missed) loading = missed = null;
  }
}

/** Once more. When that fails, the next delta finds the gap. */
function refetchTimeline() {
  loading = fetchTimeline();
  loading.catch(() => {});
}

/** Begin (again): the session, the frame, then the stream. */
export async function start() {
  if (!state.source) {
    takeToken();
    const frozen = document.getElementById("frozen");
    state.source = frozen ? new Frozen(frozen.textContent) : new Server();
    addEventListener("hashchange", onAddress);
  }
  try {
    state.session = await api("session").catch(() => null);
    if (state.session && state.source.kind === "server" && !readToken()) throw noToken();
    const frame = await api("frame");
    await new Promise((done) => setTimeout(done)); // reading a large frame was one task; showing it is the next
    setLive(frame);
    await readRoute();
    connection(restingConnection());
    if (state.source.kind === "server") follow();
  } catch (error) {
    state.trouble = error;
    connection(error.status === 401 ? "signin" : "lost");
    emit("frame", null);
    if (error.status !== 401) setTimeout(start, 3000);
  }
}

// ---- the address

/** The address as {view, parts, query}. */
export function route() {
  return parseRoute(location.hash);
}

/** An address: href("gang", "ns", "name") → "#/gang/ns/name". */
export function href(view, ...parts) {
  return formatRoute({view, parts});
}

/** Go to an address; the version looked at and the topology are kept unless the address names its own. */
export function go(hash, {instead = false} = {}) {
  const {at, topology} = route().query;
  const wanted = parseRoute(hash);
  const target = formatRoute({...wanted, query: {at, topology, ...wanted.query}});
  if (target === location.hash) return;
  if (instead) {
    history.replaceState(null, "", target);
    readRoute();
  } else {
    location.hash = target;
  }
}

async function readRoute() {
  const {view, parts, query} = route();
  const selected =
    view === "gang" && parts.length >= 2 ? `${parts[0]}/${parts[1]}` : view === "map" ? null : state.selected;
  const moved = selected !== state.selected;
  state.selected = selected;
  const at = /^\d+$/.test(query.at || "") ? Number(query.at) : null;
  const looked = at === state.at ? null : lookAt(at);
  if (moved) emit("select", selected);
  emit("route", route());
  await looked;
}

/** Show a gang at its own address, or nobody (null). */
export function select(key) {
  if (key) go(href("gang", ...key.split("/")));
  else if (route().view === "gang") go("#/map");
}

/** Point at a gang without choosing it. */
export function hover(key) {
  if (state.hovered === key) return;
  state.hovered = key;
  emit("hover", key);
}

/** Show a what-if result on the map, or take it away (null). */
export function setGhost(result) {
  state.ghost = result;
  emit("ghost", result);
}

/** The domains that come nearest for a gang, as in its explanation: [{where, best, asked}]. */
export function setNear(key, nearest) {
  state.near = {key, nearest};
  emit("near", state.near);
}

/** What stands in the search box. */
export function setSearch(text) {
  if (state.search === text) return;
  state.search = text;
  emit("search", text);
}

/** Look at an earlier version, or at now (null); the address carries it. */
export function scrub(version) {
  const {view, parts, query} = route();
  const target = formatRoute({view, parts, query: {...query, at: version}});
  if (target === location.hash) return;
  history.replaceState(null, "", target);
  readRoute();
}

let looking = 0;

function unkept(version) {
  return [`version ${version} is not kept any more`, "go back to now, and choose another moment", 410];
}

async function lookAt(version) {
  const mine = ++looking;
  state.at = version;
  if (version === null) {
    state.frame = state.live || state.frame;
    emit("frame", null);
    return;
  }
  try {
    // What is not kept any more is not asked for.
    const line = await loadTimeline().catch(() => null);
    if (mine !== looking) return;
    const newest = Math.max(state.live?.version || 0, line ? lastVersion(line) : 0);
    if (line && (version < line.first || version > newest)) throw new Problem(...unkept(version));
    const frame = await api(`frame?version=${version}`);
    if (mine !== looking) return; // somebody scrubbed on
    state.frame = frame;
    emit("frame", null);
  } catch (error) {
    if (mine === looking) emit("trouble", error);
  }
}
