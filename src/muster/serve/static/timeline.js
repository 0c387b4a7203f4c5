// The timeline: a lane per gang, its decisions as marks, and a slider that goes back over the cycles that are kept.
import {look, swatch} from "./colours.js";
import {decisionBox} from "./decision.js";
import {clock, count, empty, h, later, plural, problem, replace} from "./dom.js";
import {clusters, KINDS, stretches, ticks, wordOf} from "./lanes.js";
import {hover, loadTimeline, matches, scrub, state} from "./state.js";
import * as parts from "./parts.js";

const LANE = 26;
const STEP_MS = 400;
const PHASES = {wait: "waits", placing: "being placed", run: "runs", short: "below its minimum"};

function now() {
  const last = Date.parse(state.live?.at) || Date.now();
  return parts.still() ? last : Math.max(Date.now(), last);
}

/** The window in time: all kept cycles until somebody zooms; then what was chosen. */
class Window {
  constructor() {
    this.chosen = null;
  }

  whole() {
    const {cycles, lanes} = state.timeline;
    let first = Date.parse(cycles[0]?.[1]) || now() - 60000;
    // Of a file there is one moment: the lanes begin where its gangs do.
    if (cycles.length < 2) {
      for (const lane of Object.values(lanes)) first = Math.min(first, Date.parse(lane.created) || first);
      // And where none of them says when that was, at the left edge.
      if (first >= now()) first = now() - 60000;
    }
    const length = Math.max(now() - first, 20000);
    // The edge moves in small steps, so that lanes are not drawn anew for every second.
    const step = Math.max(1000, length / 120);
    const to = Math.ceil((first + length) / step) * step;
    return {from: first - length * 0.03, to: to + length * 0.01};
  }

  get() {
    return this.chosen || this.whole();
  }

  /** Make it `factor` times as long around a point (0…1 of it). */
  zoom(factor, around = 0.5) {
    const {from, to} = this.get();
    const length = Math.min(Math.max((to - from) * factor, 2000), 40 * 86400000);
    const still = from + (to - from) * around;
    this.chosen = {from: still - length * around, to: still + length * (1 - around)};
  }

  pan(part) {
    const {from, to} = this.get();
    const by = (to - from) * part;
    this.chosen = {from: from + by, to: to + by};
  }
}

/** One lane: name, stretches, marks. */
function laneOf(key, lane, gang, {from, to, first, end, width, left}, chosen) {
  const place = (at) => ((at - from) / (to - from)) * width;
  const track = h("div", {class: `track g${look(key).colour}`, role: "gridcell"});
  for (const [phase, begin, until] of stretches(lane, first, end, gang)) {
    if (until <= from || begin >= to) continue;
    const since = lane.created || begin > first ? `${clock(begin)} – ${clock(until)}` : "(not known since when)";
    const piece = h("i", {class: `stretch ${phase}`, title: `${PHASES[phase]} ${since}`});
    const start = Math.max(0, place(begin));
    piece.style.left = `${start}px`;
    piece.style.width = `${Math.max(1, Math.min(width, place(until)) - start)}px`;
    track.append(piece);
  }
  const seenMarks = lane.marks.filter((mark) => Date.parse(mark.at) >= from && Date.parse(mark.at) <= to);
  for (const {x, mark, marks} of clusters(seenMarks, place, 13)) {
    const sign = KINDS[mark.kind]?.[0] || "•";
    const said = marks
      .slice(-8)
      .map((one) => `${clock(one.at)} ${one.text || wordOf(one)}`)
      .join("\n");
    const button = h(
      "button",
      {
        type: "button",
        tabindex: "-1",
        class: `mark k-${KINDS[mark.kind] ? mark.kind : "other"}${marks.length > 1 ? " several" : ""}`,
        title: said,
        "aria-label": `${wordOf(mark)}: ${mark.text || ""}`,
        "data-testid": "mark",
        "data-kind": mark.kind,
        "data-version": String(mark.version),
        "data-at": String(lane.marks.indexOf(mark)),
      },
      sign,
    );
    button.style.left = `${x}px`;
    track.append(button);
  }
  const name = h("div", {class: "lane-name", role: "rowheader"}, swatch(key), parts.gangLink(key));
  name.style.width = `${left}px`;
  return h(
    "div",
    {class: `lane${chosen ? " chosen" : ""}`, role: "row", "data-testid": "lane", "data-gang": key},
    name,
    track,
  );
}

function legend() {
  const kinds = Object.entries(KINDS).map(([kind, [sign, word]]) =>
    h("span", {}, h("i", {class: `mark k-${kind}`, "aria-hidden": "true"}, sign), word),
  );
  const phases = Object.entries(PHASES).map(([phase, word]) =>
    h("span", {}, h("span", {class: "track sample g4"}, h("i", {class: `stretch ${phase}`})), word),
  );
  return h("div", {class: "tl-legend small dim"}, phases, kinds);
}

/** The timeline itself: the window in time, the chosen lane, what plays. */
class Timeline {
  constructor(element) {
    this.seen = new Window();
    this.view = null;
    this.chosen = null;
    this.keys = [];
    this.playing = 0;
    this.trouble = null;
    this.build(element);
    this.panel = parts.whileShown(["frame", "timeline", "search", "select"], () => this.draw());
    this.listen(element);
  }

  build(element) {
    const zoom = (words, sign, act) => {
      const click = () => {
        act();
        this.panel.again();
      };
      return h("button", {type: "button", "aria-label": words, title: words, onclick: click}, sign);
    };
    this.play = h(
      "button",
      {type: "button", class: "play", title: "Play (space)", onclick: () => this.toggle()},
      "▶",
    );
    this.slider = h("input", {
      type: "range",
      min: "0",
      step: "1",
      class: "scrub",
      "aria-label": "Cycle",
      data: {testid: "scrub"},
    });
    this.label = h("output", {class: "tl-label"});
    this.live = h(
      "button",
      {type: "button", class: "live", data: {testid: "live"}, onclick: () => this.toNow()},
      "back to now",
    );
    const zooms = h(
      "span",
      {class: "zoom"},
      zoom("Zoom out in time", "−", () => this.seen.zoom(1.6)),
      zoom("Zoom in on time", "+", () => this.seen.zoom(0.625)),
      zoom("All kept cycles", "fit", () => {
        this.seen.chosen = null;
      }),
    );
    this.axis = h("div", {class: "tl-axis", "aria-hidden": "true"});
    this.box = h("div", {class: "tl-lanes", tabindex: "0", role: "grid", "aria-label": "Gangs over time"});
    this.cursor = h("div", {class: "tl-cursor", "aria-hidden": "true"});
    this.future = h("div", {class: "tl-future", "aria-hidden": "true", hidden: true});
    this.stage = h("div", {class: "tl-stage"}, this.axis, this.box, this.future, this.cursor);
    const decided = h("aside", {class: "tl-decision", "aria-label": "Decision"});
    this.note = h("div", {class: "note-box", hidden: true});
    this.whole = h("div", {class: "tl-main"}, this.stage, decided);
    this.bar = h("div", {class: "bar-top tl-bar"}, this.play, this.slider, this.label, this.live, zooms);
    this.signs = legend();
    element.append(this.bar, this.whole, this.signs, this.note);
    this.decision = decisionBox(decided, () => this.panel.again());
    this.list = parts.longList(this.box, {
      height: LANE,
      sign: (item) => this.signOf(item),
      draw: ({key, lane}) => laneOf(key, lane, gangNow(key), this.view, key === this.chosen),
    });
  }

  listen(element) {
    this.slider.addEventListener("input", () => {
      this.stop();
      this.to(Number(this.slider.value));
    });
    this.box.addEventListener("click", (event) => this.onClick(event));
    this.box.addEventListener("pointerover", (event) => hover(event.target.closest(".lane")?.dataset.gang ?? null));
    this.box.addEventListener("pointerleave", () => hover(null));
    this.stage.addEventListener("wheel", (event) => this.onWheel(event), {passive: false});
    onDrag(this.stage, (pixels) => {
      this.seen.pan(pixels / this.width());
      this.panel.again();
    });
    document.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(later(() => this.panel.again())).observe(element);
    setInterval(() => !document.hidden && state.at === null && this.panel.route && this.panel.again(), 1000);
  }

  show(route) {
    this.chosen ||= state.selected;
    this.panel.show(route);
    this.load();
  }

  hide() {
    clearTimeout(this.playing);
    this.playing = 0;
    hover(null);
    this.panel.hide();
  }

  async load() {
    if (state.timeline) return;
    this.trouble = null;
    try {
      await loadTimeline();
    } catch (error) {
      this.trouble = error;
    }
    this.panel.again();
  }

  /** How wide the names are, and the lanes beside them. */
  left() {
    return this.stage.clientWidth < 620 ? 116 : 220;
  }

  width() {
    return Math.max(60, this.box.clientWidth - this.left());
  }

  signOf({key, lane}) {
    const {from, width, left, now: until} = this.view;
    return [lane.marks.length, gangNow(key)?.state, from, width, left, until, key === this.chosen].join();
  }

  draw() {
    const {timeline} = state;
    if (this.trouble)
      return this.say(
        "trouble",
        problem(this.trouble, () => this.load()),
      );
    if (!timeline) return this.load();
    if (!state.frame) return;
    const all = Object.entries(timeline.lanes);
    if (!all.length) return this.say("none", nothingYet());
    this.say("", null);
    this.drawBar(timeline);
    const {from, to} = this.seen.get();
    const end = Math.min(now(), to);
    // A file may have gangs that do not say since when they are: they are as they are all the time.
    const first = timeline.cycles.length < 2 ? from : Date.parse(timeline.cycles[0]?.[1]) || end;
    const [left, width] = [this.left(), this.width()];
    this.view = {from, to, left, width, first, end, now: Math.round(((end - from) / (to - from)) * width)};
    const rows = all
      .filter(([key]) => !state.search || matches(state.search, key, gangNow(key) || {}))
      .map(([key, lane]) => ({key, lane, born: Date.parse(lane.created) || 0}))
      .sort((one, two) => two.born - one.born || (one.key < two.key ? -1 : 1));
    this.keys = rows.map((row) => row.key);
    this.list.set(rows);
    this.drawAxis();
  }

  /** Something instead of the lanes, or the lanes. */
  say(word, instead) {
    this.bar.hidden = this.whole.hidden = this.signs.hidden = Boolean(instead);
    this.note.hidden = !instead;
    if (this.note.dataset.says === word) return;
    this.note.dataset.says = word;
    replace(this.note, instead);
  }

  drawBar({cycles}) {
    const last = cycles.length - 1;
    const found = state.at === null ? last : cycles.findIndex(([version]) => version >= state.at);
    const at = found < 0 ? last : found;
    this.slider.max = String(Math.max(0, last));
    this.slider.value = String(at);
    this.slider.disabled = this.play.disabled = last < 1;
    this.live.disabled = state.at === null;
    const then = cycles[at] ? `${clock(cycles[at][1])} · version ${cycles[at][0]}` : "";
    const here = parts.still() && last < 1 ? "a file is one moment" : `now · ${plural(cycles.length, "cycle")} kept`;
    this.label.textContent = state.at === null ? here : then;
    this.slider.setAttribute("aria-valuetext", state.at === null ? "now" : then);
    this.play.textContent = this.playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }

  drawAxis() {
    const {from, to, left, width} = this.view;
    const {step, found} = ticks(from, to, width);
    const place = (at) => left + ((at - from) / (to - from)) * width;
    replace(
      this.axis,
      found.map((at) => {
        const one = h("span", {}, axisWords(at, step));
        one.style.left = `${place(at)}px`;
        return one;
      }),
    );
    const back = state.at !== null;
    const x = place(back ? Date.parse(state.frame.at) : now());
    this.cursor.hidden = x < left || x > left + width;
    this.cursor.style.left = `${x}px`;
    this.cursor.classList.toggle("back", back);
    this.future.hidden = !back || x > left + width;
    this.future.style.left = `${Math.max(left, x)}px`;
  }

  /** Look at a cycle by its place among the kept ones; the last one is now. */
  to(at) {
    const {cycles} = state.timeline;
    scrub(at >= cycles.length - 1 ? null : cycles[at][0]);
  }

  toNow() {
    this.stop();
    scrub(null);
  }

  stop() {
    clearTimeout(this.playing);
    this.playing = 0;
    this.panel.again();
  }

  toggle() {
    if (this.playing) return this.stop();
    // At the end it begins again.
    if (state.at === null) this.to(0);
    this.playing = setTimeout(() => this.tick(), STEP_MS);
    this.panel.again();
  }

  tick() {
    const at = state.timeline.cycles.findIndex(([version]) => version >= state.at);
    if (!this.panel.route || state.at === null || at < 0) return this.stop();
    // The next one waits until this one has come.
    if (state.frame.version === state.at) this.to(at + 1);
    if (state.at === null) return this.stop();
    this.playing = setTimeout(() => this.tick(), STEP_MS);
  }

  /** Shows what was decided at a mark, and the cluster as it was then. */
  open(key, at) {
    const mark = state.timeline.lanes[key]?.marks[at];
    if (!mark) return;
    this.chosen = key;
    this.stop();
    this.decision.show(mark.version, key, mark);
    // A cycle that is not kept any more can't be looked at on the map.
    const kept = mark.version >= state.timeline.cycles[0]?.[0];
    if (kept) scrub(mark.version >= (state.live?.version ?? 0) ? null : mark.version);
  }

  onClick(event) {
    const lane = event.target.closest(".lane");
    const mark = event.target.closest(".mark");
    if (mark) this.open(lane.dataset.gang, Number(mark.dataset.at));
    else if (lane && !event.target.closest("a")) {
      this.chosen = lane.dataset.gang;
      this.list.paint();
    }
  }

  onWheel(event) {
    const part = (event.clientX - this.stage.getBoundingClientRect().left - this.left()) / this.width();
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey || event.metaKey)
      this.seen.zoom(Math.exp(event.deltaY * 0.003), Math.min(1, Math.max(0, part)));
    else if (sideways) this.seen.pan((event.deltaX || event.deltaY) / this.width());
    else return;
    event.preventDefault();
    this.panel.again();
  }

  onKey(event) {
    if (!this.panel.route || parts.typing(event) || event.defaultPrevented || parts.onMap()) return;
    const marks = state.timeline?.lanes[this.chosen]?.marks || [];
    const mine = document.activeElement === this.box && marks.length > 0;
    const step = parts.stepOf(event);
    if (step && this.keys.length) this.move(step);
    else if (mine && event.key === "ArrowLeft") this.open(this.chosen, lastBefore(marks, state.at ?? Infinity));
    else if (mine && event.key === "ArrowRight")
      this.open(
        this.chosen,
        marks.findIndex((mark) => mark.version > (state.at ?? Infinity)),
      );
    else if (mine && event.key === "Enter") this.open(this.chosen, marks.length - 1);
    else if (event.key === " " && !document.activeElement?.closest("button, a")) this.toggle();
    else if (event.key === "Escape" && this.decision.open) this.decision.close();
    else return;
    event.preventDefault();
  }

  move(step) {
    const from = this.keys.indexOf(this.chosen);
    const to = Math.max(0, Math.min(this.keys.length - 1, from < 0 ? 0 : from + step));
    this.chosen = this.keys[to];
    this.list.reveal(to);
  }
}

/** A gang as it is now, whatever moment is looked at. */
function gangNow(key) {
  return state.live && Object.hasOwn(state.live.gangs, key) ? state.live.gangs[key] : null;
}

function lastBefore(marks, version) {
  for (let at = marks.length - 1; at >= 0; at--) if (marks[at].version < version) return at;
  return -1;
}

function axisWords(at, step) {
  if (step >= 86400000) return new Date(at).toLocaleDateString("en-GB", {day: "numeric", month: "short"});
  return clock(at).slice(0, step < 60000 ? 8 : 5);
}

function nothingYet() {
  if (parts.still()) return empty("No gangs in this file", "Each would have a lane here.");
  const says = "Every gang gets a lane here from the moment that it is created.";
  return empty("Nothing has happened yet", says, "kubectl apply -f examples/inference.yaml");
}

/** Calls `moved` with the pixels that the pointer was dragged by, to the left. */
function onDrag(element, moved) {
  element.addEventListener("pointerdown", (event) => {
    if (event.button || event.target.closest("button, a")) return;
    let last = event.clientX;
    const move = (next) => {
      if (Math.abs(next.clientX - last) < 2) return;
      moved(last - next.clientX);
      last = next.clientX;
    };
    const up = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
  });
}

/** Puts the timeline into an element. */
export function mount(element) {
  return new Timeline(element);
}
