// How a frame moves on: pure, so that it is tested without a browser.

/** Apply a delta to the frame in place; returns which names changed, or null when everything may have. */
export function applyDelta(frame, delta) {
  const changed = {nodes: new Set(), gangs: new Set(), queues: new Set()};
  for (const kind of ["nodes", "gangs", "queues"]) {
    const {set = {}, gone = []} = delta[kind] || {};
    for (const name of gone) {
      delete frame[kind][name];
      changed[kind].add(name);
    }
    for (const [name, value] of Object.entries(set)) {
      frame[kind][name] = value;
      changed[kind].add(name);
    }
  }
  for (const key of ["version", "decision", "at", "summary", "topologies", "unit", "source"]) {
    if (key in delta) frame[key] = delta[key];
  }
  return delta.topologies || delta.unit ? null : changed;
}

/** Add a delta's cycles and marks to the timeline in place, those that it does not have yet; what the server does not
 *  keep any more goes, and lanes without marks whose gang is not in `gangs`. False: there is a gap before the delta. */
export function extendTimeline(timeline, delta, gangs = {}) {
  const last = lastVersion(timeline);
  if (delta.version <= last) return true;
  if (delta.from > last) return false;
  timeline.cycles.push(...delta.cycles.filter(([version]) => version > last));
  for (const mark of delta.marks) {
    if (mark.version <= last) continue;
    const lane = timeline.lanes[mark.gang] || (timeline.lanes[mark.gang] = {created: mark.at, marks: []});
    lane.marks.push(mark);
  }
  if (timeline.first === delta.first) return true;
  timeline.first = delta.first;
  timeline.cycles = timeline.cycles.filter(([version]) => version >= delta.first);
  for (const [key, lane] of Object.entries(timeline.lanes)) {
    if (lane.marks.length && lane.marks[0].version < timeline.first) {
      lane.marks = lane.marks.filter((mark) => mark.version >= timeline.first);
    }
    if (!lane.marks.length && !(key in gangs)) delete timeline.lanes[key];
  }
  return true;
}

/** The version that a timeline goes up to. */
export function lastVersion({cycles}) {
  return cycles.length ? cycles[cycles.length - 1][0] : 0;
}

/** Cut a stream of server-sent events into events: feed(text) calls emit({event, id, data}) for every whole one. */
export function eventParser(emit) {
  let rest = "";
  let event = {event: "message", id: null, data: []};
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) emit({...event, data: event.data.join("\n")});
        event = {event: "message", id: null, data: []};
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") event.data.push(value);
      else if (field === "event") event.event = value;
      else if (field === "id") event.id = value;
    }
  };
}

/** "#/gang/ns/name?at=4" → {view: "gang", parts: ["ns", "name"], query: {at: "4"}}. */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split("?");
  const [view, ...parts] = path.split("/").filter(Boolean).map(plain);
  return {view: view || "map", parts, query: Object.fromEntries(new URLSearchParams(query))};
}

/** Without %-signs, where that is possible. */
export function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a half-typed % in the address is no reason to fail
  }
}

/** The other way round; empty values of the query are left out. */
export function formatRoute({view, parts = [], query = {}}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept).toString();
  return `#/${[view, ...parts].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Does a gang answer to what was typed in the search box? All words must match: name, queue, state, reason. */
export function matches(text, key, gang) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const about =
    `${key} ${gang.queue || ""} ${gang.state || ""} ${gang.verdict || ""} ${gang.reason || ""}`.toLowerCase();
  return words.every((word) => about.includes(word));
}

/**
 * What a frozen file {frame, timeline, explanations, decisions} answers to a path of the API; null: it does not
 * hold it.
 */
export function heldAnswer(held, path) {
  const {pathname, searchParams} = new URL(path, "file:///");
  const parts = pathname.split("/").slice(1).map(plain);
  if (parts[0] === "session") return {mode: "frozen", source: held.frame.source};
  if (parts[0] === "timeline") return held.timeline || null;
  const version = Number(searchParams.get("version") || held.frame.version);
  if (parts[0] === "decisions") return ofGang(held.decisions?.[parts[1]], searchParams.get("gang"));
  if (version !== held.frame.version) return null;
  if (parts[0] === "frame") return held.frame;
  if (parts[0] === "gangs" && parts[3] === "explanation") return held.explanations?.[`${parts[1]}/${parts[2]}`] || null;
  return null;
}

function ofGang(decision, gang) {
  if (!decision || !gang) return decision || null;
  const only = (list) => (Array.isArray(list) ? list.filter((one) => one.gang === gang) : list);
  const {bindings, nominations, evictions, words} = decision;
  return {
    ...decision,
    bindings: only(bindings),
    nominations: only(nominations),
    evictions: Array.isArray(evictions) ? evictions.filter((one) => one.gang === gang || one.for === gang) : evictions,
    words: only(words),
  };
}
