// One cycle's decision: who was bound where, who got room reserved, who had to go and why.
import {clock, count, empty, h, plural, problem, replace} from "./dom.js";
import {api} from "./state.js";
import * as parts from "./parts.js";

const MOST = 60;

/** Entries by gang, in their order. */
function byGang(entries) {
  const found = new Map();
  for (const one of entries) {
    const key = one.gang || (one.namespace ? `${one.namespace}/${one.pod}` : one.pod);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(one);
  }
  return found;
}

function places(title, sign, entries) {
  if (!entries?.length) return null;
  const groups = [...byGang(entries)];
  return parts.section(
    `${sign} ${title} ${plural(entries.length, "pod")}`,
    h(
      "ul",
      {class: "plain"},
      groups.slice(0, MOST).map(([key, pods]) => {
        const nodes = [...new Set(pods.map((one) => one.node))];
        const where = nodes.length > 3 ? plural(nodes.length, "node") : nodes.join(", ");
        return h(
          "li",
          {
            title: pods
              .slice(0, MOST)
              .map((one) => `${one.pod} → ${one.node}`)
              .join("\n"),
          },
          parts.gangLink(key),
          h("span", {class: "dim"}, ` ${plural(pods.length, "pod")} → ${where}`),
        );
      }),
      groups.length > MOST ? h("li", {class: "dim"}, `and ${count(groups.length - MOST)} more`) : null,
    ),
  );
}

function evictions(title, entries) {
  if (!entries?.length) return null;
  const groups = new Map();
  for (const one of entries) {
    const key = [one.gang || `${one.namespace || ""}/${one.pod}`, one.action, one.for, one.why || one.message].join(
      "\n",
    );
    groups.set(key, [...(groups.get(key) || []), one]);
  }
  return parts.section(
    `✕ ${title} ${plural(entries.length, "pod")}`,
    h(
      "ul",
      {class: "plain"},
      [...groups.values()].slice(0, MOST).map((pods) => {
        const [first] = pods;
        return h(
          "li",
          {title: pods.map((one) => one.pod).join("\n")},
          first.action ? h("span", {class: "tag warn"}, first.action) : null,
          " ",
          parts.gangLink(first.gang || `${first.namespace || ""}/${first.pod}`),
          ` loses ${plural(pods.length, "pod")}`,
          first.for ? [" for ", parts.gangLink(first.for)] : null,
          first.why || first.message ? h("p", {class: "dim small"}, first.why || first.message) : null,
        );
      }),
    ),
  );
}

function words(entries) {
  if (!entries?.length) return null;
  return parts.section(
    "What was said",
    h(
      "ul",
      {class: "plain"},
      entries
        .slice(0, MOST)
        .map((one) =>
          h(
            "li",
            {},
            parts.gangLink(one.gang),
            " ",
            h("b", {}, one.reason || one.verdict),
            h("p", {class: "dim small"}, one.message),
          ),
        ),
      entries.length > MOST ? h("li", {class: "dim"}, `and ${count(entries.length - MOST)} more`) : null,
    ),
  );
}

/** A decision, as /api/decisions/V has it, as an element. */
export function drawDecision(found) {
  // A plan without the name of a decision is one that nobody acts on: of a file, or where another one leads.
  const acts = Boolean(found.decision);
  const inside = [
    places(acts ? "bound" : "would bind", "◆", found.bindings),
    places(acts ? "reserved room for" : "would reserve room for", "◇", found.nominations),
    evictions(acts ? "evicted" : "would evict", found.evictions),
    words(found.words),
  ].filter(Boolean);
  if (found.unseen)
    inside.push(h("p", {class: "dim"}, `${plural(found.unseen, "pod")} of gangs that you may not see go too.`));
  return h(
    "div",
    {class: "decision"},
    inside.length ? inside : h("p", {class: "dim"}, "This cycle changed nothing here."),
  );
}

/** A place where decisions are shown: `show(version, gang)` asks for one, `close()` takes it away. */
export function decisionBox(element, closed) {
  let turn = 0;
  const body = h("div", {class: "decision-body"});
  const title = h("h2");
  const shut = () => {
    turn++;
    element.hidden = true;
    closed?.();
  };
  element.append(
    h(
      "header",
      {},
      title,
      h("button", {type: "button", class: "quiet", "aria-label": "Close the decision", onclick: shut}, "✕"),
    ),
    body,
  );
  element.hidden = true;
  async function show(version, gang, mark) {
    const mine = ++turn;
    const wasHidden = element.hidden;
    element.hidden = false;
    replace(title, gang ? parts.gangName(gang) : `Cycle ${count(version)}`);
    const lead = h("p", {class: "lead"}, mark ? [clock(mark.at), " · ", mark.text] : `version ${version}`);
    if (wasHidden || mark) replace(body, lead);
    try {
      const query = gang ? `?gang=${encodeURIComponent(gang)}` : "";
      const found = await api(`decisions/${version}${query}`);
      if (mine !== turn) return;
      const about = h(
        "p",
        {class: "dim small"},
        `version ${found.version}${found.decision ? ` · decision ${found.decision}` : ""} · ${clock(found.at)}`,
      );
      const whole = gang
        ? h("button", {type: "button", class: "chip", onclick: () => show(version, null, null)}, "the whole cycle")
        : null;
      replace(body, lead, about, drawDecision(found), whole);
    } catch (error) {
      if (mine === turn)
        replace(
          body,
          lead,
          error.status === 404 || error.status === 410
            ? empty(error.error, error.hint)
            : problem(error, () => show(version, gang, mark)),
        );
    }
  }
  return {
    show,
    close: shut,
    get open() {
      return !element.hidden;
    },
  };
}
