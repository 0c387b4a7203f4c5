// A gang's life as a lane: which stretches it waited, ran or was short, and its marks where they fall. Pure.

/** Sign, word and weight of every kind of mark; where marks meet, the heaviest is seen. */
export const KINDS = {
  created: ["○", "created", 2],
  waiting: ["…", "waits", 3],
  placed: ["◇", "placed", 5],
  bound: ["◆", "bound", 5],
  satisfied: ["✓", "satisfied", 6],
  moved: ["→", "moved", 5],
  below: ["▽", "below its minimum", 7],
  stale: ["!", "stale", 8],
  evicted: ["✕", "evicted", 9],
  gone: ["⊣", "gone", 6],
};

/** What a mark says in a word or two; of a plan that nobody acts on, what would be. */
export function wordOf(mark) {
  const word = KINDS[mark.kind]?.[1] || mark.kind;
  return mark.would ? `would be ${word}` : word;
}

const PHASE = {
  created: "wait",
  waiting: "wait",
  placed: "placing",
  bound: "run",
  satisfied: "run",
  below: "short",
  stale: "short",
  gone: "",
};
const WAIT = "wait";
const SHORT = "short";
const NOW = {
  ...{running: "run", partial: "run", finished: "", pending: WAIT, held: WAIT, fits: WAIT},
  ...{leaving: SHORT, stale: SHORT},
};
const STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000,
];

/**
 * The stretches of a lane up to `end`: [phase, from, to] in milliseconds; `gang` is what it is at the end, if it is.
 * `first` is when the story begins: whoever first loses something in it ran before.
 */
export function stretches(lane, first, end, gang) {
  const found = [];
  const before = lane.marks.find((mark) => mark.kind !== "created")?.kind;
  let phase = ["evicted", "moved", "below", "stale", "gone"].includes(before) ? "run" : "wait";
  let from = Date.parse(lane.created) || first;
  for (const mark of lane.marks) {
    const at = Date.parse(mark.at);
    const next = PHASE[mark.kind];
    // Who runs and gets more still runs; and what nobody does changes nothing.
    const isMore = phase === "run" && next === "placing";
    if (mark.would || next === undefined || next === phase || at > end || isMore) continue;
    if (phase && at > from) found.push([phase, from, at]);
    phase = next;
    from = at;
  }
  if (gang && NOW[gang.state] !== undefined && phase) phase = NOW[gang.state];
  if (phase && end > from) found.push([phase, from, end]);
  return found;
}

/** Marks that can be told apart: those nearer than `gap` pixels are one, shown as the heaviest of them. */
export function clusters(marks, place, gap) {
  const found = [];
  for (const mark of marks) {
    const x = place(Date.parse(mark.at));
    const last = found[found.length - 1];
    if (last && x - last.x < gap) {
      last.marks.push(mark);
      if ((KINDS[mark.kind]?.[2] || 0) >= (KINDS[last.mark.kind]?.[2] || 0)) last.mark = mark;
    } else found.push({x, mark, marks: [mark]});
  }
  return found;
}

/** Round moments for an axis of `width` pixels from `from` to `to`. */
export function ticks(from, to, width) {
  const most = Math.max(2, Math.floor(width / 92));
  const step = 1000 * (STEPS_S.find((one) => (to - from) / (one * 1000) <= most) || STEPS_S[STEPS_S.length - 1]);
  const zone = new Date(from).getTimezoneOffset() * 60000;
  const found = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to && found.length <= most + 1; at += step)
    found.push(at);
  return {step, found};
}
