// What if this came too? A manifest in, the plan as a ghost on the map out, and nothing is changed.
import {swatch} from "./colours.js";
import {command, h, plural, problem, replace} from "./dom.js";
import {api, setGhost, state} from "./state.js";
import {drawTree, newFolds} from "./tree.js";
import {drawWhy} from "./why.js";
import * as parts from "./parts.js";

const MOST_BYTES = 1 << 20;
const KEPT = "muster.what-if";

/** The narrowest level of the first topology whose domains have more than one node. */
function levelOf(frame) {
  const {levels, name} = frame.topologies?.[0] || {levels: []};
  const paths = Object.values(frame.nodes)
    .map((node) => node.paths?.[0])
    .filter(Boolean);
  for (let at = levels.length - 1; at >= 0; at--) {
    const domains = new Set(paths.map((path) => path.slice(0, at + 1).join("/")));
    if (domains.size < paths.length) return {topology: name, requiredTopologyLevel: levels[at]};
  }
  return null;
}

/** Where an example belongs: who may not see everything is sure to see the namespaces of gangs that are shown. */
function spaceOf(frame, session) {
  const spaces = session?.mode === "cluster" ? Object.values(frame.gangs).map((gang) => gang.namespace) : [];
  const home = session?.namespace || "default";
  return spaces.length && !spaces.includes(home) ? spaces[0] : home;
}

/** A manifest for this cluster: a few pods of one unit each, in one domain, in the first queue that takes gangs. */
export function example(frame, session) {
  const request = JSON.stringify({[frame.unit?.resource || "cpu"]: 1});
  const level = levelOf(frame);
  const queues = Object.entries(frame.queues || {});
  const leaf = queues.find(([name, one]) => !one.problem && !queues.some(([, other]) => other.parent === name));
  const more = [leaf && `queue: ${JSON.stringify(leaf[0])}`, level && `topologyConstraint: ${JSON.stringify(level)}`];
  const scheduler = JSON.stringify(session?.schedulerName || "kai-scheduler");
  const spec = ["minMember: 8", ...more.filter(Boolean)].map((line) => `  ${line}\n`).join("");
  const pods = Array.from({length: 8}, (_, at) => [
    `  - metadata: {name: what-if-${at}, annotations: {pod-group-name: what-if}}\n`,
    `    spec: {schedulerName: ${scheduler}, containers: [{name: main, resources: {requests: ${request}}}]}\n`,
  ]);
  return `apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: what-if, namespace: ${JSON.stringify(spaceOf(frame, session))}}
spec:
${spec}---
apiVersion: v1
kind: PodList
items:
${pods.flat().join("")}`;
}

function victims(found) {
  if (!found?.length) return null;
  const groups = new Map();
  for (const one of found) {
    const key = [one.gang, one.action, one.for].join("\n");
    groups.set(key, [...(groups.get(key) || []), one]);
  }
  return parts.section(
    `✕ Would lose ${plural(found.length, "pod")}`,
    h(
      "ul",
      {class: "plain"},
      [...groups.values()].map((pods) => {
        const [{gang, action, for: winner}] = pods;
        return h(
          "li",
          {title: pods.map((one) => `${one.pod} on ${one.node}`).join("\n")},
          swatch(gang),
          " ",
          parts.gangLink(gang),
          ` loses ${plural(pods.length, "pod")} `,
          h("span", {class: "tag warn"}, action),
          winner ? [" for ", parts.gangLink(winner)] : null,
        );
      }),
    ),
  );
}

/** One gang that was added: whether it fits, its tree, and the reason. */
function gangPart(key, gang, found) {
  const fits = gang.verdict === "Placed";
  const waits = fits && !gang.satisfied;
  const folds = newFolds();
  const tree = h("div");
  const drawn = () => replace(tree, drawTree(gang, folds, drawn));
  drawn();
  return h(
    "section",
    {class: "what-gang", "data-gang": key},
    h(
      "h3",
      {class: fits ? "good" : "bad"},
      h("i", {"aria-hidden": "true"}, fits ? "✓ " : "✗ "),
      parts.gangName(key),
      fits ? (waits ? " fits, once others have left" : " fits") : ` does not fit: ${gang.reason || gang.verdict}`,
    ),
    tree,
    found ? drawWhy(found, {planned: true}) : parts.sentence(gang.message),
  );
}

function titleOf(answer, gangs) {
  if (!gangs.length) return "Nothing to schedule in it";
  if (answer.ok) return answer.victims?.length ? "It fits, and others make room" : "It fits";
  return gangs.length > 1 ? "Not all of it fits" : "It does not fit";
}

function drawResult(answer) {
  const gangs = Object.entries(answer.gangs || {});
  const good = answer.ok && gangs.length > 0;
  const pods = answer.pods?.length || 0;
  const crossed = answer.victims?.length ? " and crosses what would go" : "";
  const list = (found, kind = "") =>
    h(
      "ul",
      {class: "plain"},
      found.map((one) => h("li", {class: kind}, one)),
    );
  return h(
    "div",
    {class: "what-result", "data-testid": "whatif-result", "data-ok": String(answer.ok)},
    h(
      "p",
      {role: "status", class: `verdict ${good ? "good" : "bad"}`},
      h("i", {"aria-hidden": "true"}, good ? "✓ " : "✗ "),
      titleOf(answer, gangs),
    ),
    h(
      "p",
      {class: "dim small"},
      "Tried on the cluster as it is now. Nothing was changed.",
      pods ? ` The map shows ${plural(pods, "pod")} as outlines${crossed}.` : "",
    ),
    victims(answer.victims),
    answer.others?.length ? parts.section("What it means for others", list(answer.others)) : null,
    gangs.map(([key, gang]) => gangPart(key, gang, answer.explanations?.[key])),
    answer.notes?.length ? parts.section("Notes", list(answer.notes, "dim")) : null,
    answer.command
      ? h("footer", {}, h("p", {class: "dim small"}, "The same on the command line:"), command(answer.command))
      : null,
  );
}

/** The question and its answer. */
class WhatIf {
  constructor(element) {
    this.element = element;
    this.turn = 0;
    this.build();
    this.listen();
    try {
      this.text.value = sessionStorage.getItem(KEPT) || "";
    } catch {
      // Storage can be forbidden.
    }
    this.keep();
  }

  build() {
    const button = (words, onclick, more = {}) => h("button", {type: "button", onclick, ...more}, words);
    this.text = h("textarea", {
      "data-testid": "whatif-text",
      "aria-label": "Manifest",
      spellcheck: "false",
      autocomplete: "off",
      wrap: "off",
      rows: "9",
      placeholder: "Paste a manifest here, or drop a file:\na PodGroup and its pods, as YAML or JSON",
    });
    this.ask = button("Would it fit?", () => this.run(), {
      class: "primary",
      "data-testid": "whatif-go",
      title: "Ctrl+Enter",
    });
    this.clear = button("Clear", () => this.reset(), {"data-testid": "whatif-clear"});
    this.pick = h("input", {
      type: "file",
      class: "off-screen",
      tabindex: "-1",
      accept: ".yaml,.yml,.json,text/*",
      "aria-label": "File",
    });
    this.busy = h("span", {class: "dim", role: "status", hidden: true}, "asking …");
    this.result = h("div", {class: "what-out"});
    const buttons = [
      button("Example", () => this.fill(example(state.frame, state.session))),
      button("File …", () => this.pick.click()),
    ];
    this.form = h(
      "div",
      {class: "what-form"},
      h("h2", {}, "What if this came too?"),
      this.text,
      h("div", {class: "bar-top"}, this.ask, buttons, this.clear, this.busy, this.pick),
    );
    this.instead = h("div", {hidden: true});
    this.element.append(this.form, this.instead, this.result);
  }

  listen() {
    const {element, text, pick} = this;
    pick.addEventListener("change", () => this.take(pick.files[0]));
    text.addEventListener("input", () => this.keep());
    text.addEventListener("keydown", (event) => {
      if (event.key === "Escape") text.blur();
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.run();
    });
    for (const name of ["dragenter", "dragover"]) {
      element.addEventListener(name, (event) => {
        event.preventDefault();
        element.classList.add("dropping");
      });
    }
    element.addEventListener("dragleave", (event) => {
      if (!element.contains(event.relatedTarget)) element.classList.remove("dropping");
    });
    element.addEventListener("drop", (event) => {
      event.preventDefault();
      element.classList.remove("dropping");
      const words = event.dataTransfer.getData("text");
      if (event.dataTransfer.files.length) this.take(event.dataTransfer.files[0]);
      else if (words) this.fill(words);
    });
  }

  show() {
    const frozen = state.source?.kind === "frozen";
    this.form.hidden = frozen;
    this.instead.hidden = !frozen;
    if (frozen) replace(this.instead, nobodyToAsk());
    this.keep();
  }

  hide() {}

  fill(words) {
    this.text.value = words;
    this.keep();
    this.text.focus();
    this.text.setSelectionRange(0, 0);
    this.text.scrollTop = 0;
  }

  /** The text outlives a look at another view, and a reload. */
  keep() {
    try {
      sessionStorage.setItem(KEPT, this.text.value.slice(0, 200000));
    } catch {
      // It lasts as long as the page.
    }
    this.clear.disabled = !this.text.value && !this.result.childElementCount;
  }

  async take(file) {
    if (!file) return;
    this.pick.value = "";
    if (file.size > MOST_BYTES) {
      const hint = "Leave out what does not concern the workload, or use: muster plan --add FILE";
      replace(this.result, problem({error: `${file.name} is larger than 1 MiB`, hint}));
      return;
    }
    this.fill(await file.text());
    this.run();
  }

  async run() {
    if (!this.text.value.trim()) {
      const hint = "Paste a manifest, drop a file, or begin with the example.";
      replace(this.result, problem({error: "There is nothing to try yet", hint}));
      this.text.focus();
      return;
    }
    const mine = ++this.turn;
    const timer = setTimeout(() => {
      this.busy.hidden = mine !== this.turn;
    }, 250);
    this.ask.disabled = true;
    try {
      const headers = {"Content-Type": "application/yaml"};
      const answer = await api("what-if", {method: "POST", body: this.text.value, headers});
      if (mine === this.turn) this.answered(drawResult(answer), answer);
    } catch (error) {
      if (mine === this.turn) this.answered(problem(error), null);
    } finally {
      clearTimeout(timer);
    }
  }

  answered(element, ghost) {
    replace(this.result, element);
    setGhost(ghost);
    this.busy.hidden = true;
    this.ask.disabled = false;
    this.keep();
  }

  reset() {
    this.turn++;
    this.answered(null, null);
    this.fill("");
  }
}

/** In a frozen picture there is nobody to ask: what to say on the command line instead. */
function nobodyToAsk() {
  const made = state.frame?.source?.name || "";
  const line = /^muster (plan|ui)\b/.test(made) ? `${made} --add NEW.yaml` : "muster plan -f FILE --add NEW.yaml";
  const says =
    "This page is a picture of one moment: there is nobody to ask. On the command line, with the files it was made of:";
  return [h("h2", {}, "What if this came too?"), h("p", {class: "dim"}, says), command(line)];
}

/** Puts the question and its answer into an element. */
export function mount(element) {
  return new WhatIf(element);
}
