// The connection: what was missed is fetched, refusals are told, and where a token is kept. Against a server of its own.
import assert from "node:assert/strict";
import test from "node:test";

const every = globalThis.setInterval;

/** A store as browsers have it. */
function storage() {
  const held = new Map();
  return {
    getItem: (key) => held.get(key) ?? null,
    setItem: (key, value) => held.set(key, value),
    removeItem: (key) => held.delete(key),
  };
}

function line(last, first = 1) {
  const cycles = [];
  for (let version = first; version <= last; version++) cycles.push([version, `t${version}`, "d"]);
  const marks = cycles.map(([version, at]) => ({version, at, gang: "ns/a", kind: "bound"}));
  return {first, cycles, lanes: {"ns/a": {created: "t1", marks}}};
}

function frameAt(version) {
  return {version, source: {kind: "live"}, nodes: {}, gangs: {"ns/a": {}}, queues: {}, summary: {}};
}

function deltaOf(from, version, first = 1) {
  const {cycles, lanes} = line(version, from + 1);
  return {version, from, at: `t${version}`, decision: "d", first, cycles, marks: lanes["ns/a"].marks};
}

/** A page with a server whose answers the test gives: answers[path] is a document, a function, or {refused}. */
async function page(answers) {
  Object.assign(globalThis, {
    location: {hash: "", pathname: "/", search: ""},
    history: {replaceState: (_, __, hash) => (globalThis.location.hash = hash)},
    document: {getElementById: () => null},
    addEventListener: (event, fn) => event === "hashchange" && (globalThis.location.changed = fn),
    localStorage: storage(),
    sessionStorage: storage(),
  });
  // Nothing that a page waits for keeps the tests from ending.
  globalThis.setInterval = (...how) => every(...how).unref();
  const server = {answers, asked: [], streams: []};
  globalThis.fetch = async (path, {signal} = {}) => {
    const name = path.replace(/^api\//, "").split("?")[0];
    server.asked.push(name);
    let found = server.answers[name];
    if (typeof found === "function") found = await found();
    if (found?.refused) return new Response(JSON.stringify(found), {status: found.refused});
    if (name !== "events") return new Response(JSON.stringify(found));
    const body = new ReadableStream({
      start(control) {
        const open = {
          send: (event, data) =>
            control.enqueue(new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)),
        };
        server.streams.push(open);
        signal?.addEventListener("abort", () => control.close());
      },
    });
    return new Response(body);
  };
  // Each page is another instance of the module.
  const module = await import(`../../src/muster/serve/static/state.js?${page.count++}`);
  return {...module, server};
}
page.count = 0;

async function until(holds) {
  for (let tried = 0; tried < 300; tried++) {
    if (holds()) return;
    await new Promise((done) => setTimeout(done, 10));
  }
  assert.fail(`never: ${holds}`);
}

const SESSION = {mode: "token", run: "r"};

async function following(answers) {
  const found = await page({session: SESSION, frame: frameAt(3), timeline: line(3), events: {}, ...answers});
  found.signIn("secret");
  await until(() => found.server.streams.length);
  return found;
}

test("deltas that come while the timeline is loaded are in it", async () => {
  let answer;
  const {state, loadTimeline, server} = await following({timeline: () => new Promise((done) => (answer = done))});
  const loaded = loadTimeline();
  await until(() => answer);
  server.streams[0].send("delta", deltaOf(3, 4));
  server.streams[0].send("delta", deltaOf(4, 6));
  await until(() => state.live.version === 6);
  answer(line(3));
  await loaded;
  assert.deepEqual(state.timeline, line(6));
});

test("it is loaded once, however many ask", async () => {
  const {state, loadTimeline, server} = await following();
  await Promise.all([loadTimeline(), loadTimeline()]);
  assert.equal(server.asked.filter((name) => name === "timeline").length, 1);
  assert.deepEqual(await loadTimeline(), state.timeline);
});

test("after a whole frame in mid-stream the timeline is fetched again, without a gap", async () => {
  const {state, loadTimeline, server} = await following();
  await loadTimeline();
  server.answers.timeline = line(30, 11);
  server.streams[0].send("frame", frameAt(30));
  server.streams[0].send("delta", deltaOf(30, 31, 12));
  await until(() => state.timeline?.cycles.at(-1)[0] === 31);
  assert.deepEqual(state.timeline, line(31, 12));
});

test("a timeline that could not be fetched again is fetched with the next delta", async () => {
  const {state, loadTimeline, server} = await following();
  await loadTimeline();
  server.answers.timeline = {refused: 503};
  server.streams[0].send("frame", frameAt(30));
  await until(() => server.asked.filter((name) => name === "timeline").length === 2);
  server.answers.timeline = line(31, 11);
  server.streams[0].send("delta", deltaOf(30, 31, 11));
  await until(() => state.timeline?.cycles.at(-1)[0] === 31);
  assert.deepEqual(state.timeline, line(31, 11));
});

test("what the server says when it refuses reaches people, until it does not refuse any more", async () => {
  const refused = {refused: 503, error: "too many are watching", hint: "close a tab of the page"};
  const {state, signIn, server} = await page({session: SESSION, frame: frameAt(3), events: refused});
  const told = [];
  state.on("trouble", (error) => told.push(error.error));
  signIn("secret");
  await until(() => told.length);
  assert.deepEqual([state.connection, state.trouble.error, state.trouble.hint, told[0]], [
    "lost",
    refused.error,
    refused.hint,
    refused.error,
  ]);
  server.answers.events = {};
  await until(() => state.connection === "live");
  assert.equal(state.trouble, null);
});

test("the address of the next start, pasted into the open page, signs in there and does not stay", async () => {
  const {state, server} = await following();
  server.answers = {...server.answers, session: {mode: "token", run: "next"}, frame: frameAt(1)};
  globalThis.location.hash = "#token=new%20one";
  globalThis.location.changed();
  await until(() => state.live?.version === 1 && state.connection === "live");
  assert.equal(globalThis.localStorage.getItem("muster.token"), "new one");
  assert.match(globalThis.location.hash, /#\/map$/);
  assert.equal(state.frame.version, 1);
  await until(() => server.streams.length === 2);
});

test("a version that is not kept is not asked for", async () => {
  const {state, scrub, server} = await following({timeline: line(3, 2)});
  const told = [];
  state.on("trouble", (error) => told.push([error.status, error.error]));
  scrub(1);
  await until(() => told.length);
  assert.deepEqual(told, [[410, "version 1 is not kept any more"]]);
  assert.equal(server.asked.filter((name) => name === "frame").length, 1);
});

test("a token stays in the tab unless it is known to be the one of a server on this machine", async () => {
  for (const [session, kept] of [
    [SESSION, "localStorage"],
    [{mode: "cluster", run: "r"}, "sessionStorage"],
    [{refused: 502}, "sessionStorage"],
  ]) {
    const {state, start, signIn} = await page({session, frame: {refused: 401, error: "no"}});
    await start();
    await until(() => state.connection === "signin");
    await signIn("secret");
    const other = kept === "localStorage" ? "sessionStorage" : "localStorage";
    assert.deepEqual([globalThis[kept].getItem("muster.token"), globalThis[other].getItem("muster.token")], [
      "secret",
      null,
    ]);
  }
});
