// Why a gang waits: the checks and the one that fails, the nearest domains, the proof, and what would help.
import {command, count, h, plural, problem, replace} from "./dom.js";
import {api, gangPath, setNear, state} from "./state.js";
import * as parts from "./parts.js";

/** One rung of the ladder: passed, failed, or not come to. */
function rung(check) {
  const [sign, kind, word] =
    check.passed === null
      ? ["○", "untried", "not tried"]
      : check.passed
        ? ["✓", "good", "passed"]
        : ["✗", "bad", "failed"];
  const about = check.message.startsWith(check.name) ? check.message.slice(check.name.length).trim() : check.message;
  return h(
    "li",
    {class: `rung ${kind}`, "data-testid": "check", "data-good": String(check.passed)},
    h("i", {role: "img", "aria-label": word}, sign),
    h("b", {}, check.name),
    h("span", {class: "dim"}, about),
  );
}

/** A domain that comes near: what it has of what is needed, what lacks, and who holds it. */
function nearest(one) {
  const whole = Math.max(one.asked, one.best, 1);
  const lacks = Math.max(0, one.asked - one.best);
  const words = `${one.where} has room for ${count(one.best)} of ${count(one.asked)}`;
  return h(
    "li",
    {class: "near", "data-testid": "near"},
    h(
      "div",
      {class: "near-line"},
      parts.named(one.where, "strong"),
      h("span", {class: "gap"}),
      h("span", {class: "nums"}, h("b", {}, count(one.best)), " of ", h("b", {}, count(one.asked))),
    ),
    parts.meter(
      "room",
      {now: one.best, most: whole, words},
      parts.piece("have", 0, one.best, whole),
      parts.piece("lack", one.best, one.asked, whole),
    ),
    h(
      "div",
      {class: "dim small"},
      lacks ? `${count(lacks)} short` : "enough by count, but it can't be arranged",
      one.subGroup ? [" for ", parts.named(one.subGroup)] : null,
      one.heldBy.length ? [" · held by ", one.heldBy.map((who, at) => [at ? ", " : "", parts.named(who)])] : null,
    ),
  );
}

function losses(title, found, other) {
  if (!found?.length) return null;
  return parts.section(
    title,
    h(
      "ul",
      {class: "plain"},
      found.map((one) =>
        h(
          "li",
          {},
          h("span", {class: "tag warn"}, one.action),
          " ",
          parts.gangLink(one.gang),
          ` loses ${plural(one.pods.length, "pod")}`,
          other && one.for ? [" for ", parts.gangLink(one.for)] : null,
          h("p", {class: "dim small", title: one.pods.join("\n")}, one.message),
        ),
      ),
    ),
  );
}

/** Whether there is nothing to mend: everything wanted is placed and nobody takes it away. */
function allIsWell(found) {
  const parts_ = [found.remedies, found.nearest, found.loses, found.waitsFor];
  return found.verdict === "Placed" && found.satisfied && parts_.every((one) => !one?.length);
}

function well(found, planned) {
  const where = (found.subGroups || []).filter((one) => one.domain && !found.message.endsWith(` in ${one.domain}`));
  const preferences = (found.subGroups || []).filter((one) => one.preferredMet === false);
  const seen = where.slice(0, 12);
  return h(
    "div",
    {class: "well"},
    h(
      "p",
      {},
      planned ? null : [h("i", {class: "sign good", "aria-hidden": "true"}, "✓"), h("b", {}, " All is well. ")],
      found.message,
    ),
    seen.length && !planned
      ? h(
          "ul",
          {class: "plain places"},
          seen.map((one) =>
            h(
              "li",
              {},
              parts.named(one.name || found.name),
              h("span", {class: "dim"}, " in "),
              parts.named(one.domain),
            ),
          ),
        )
      : null,
    where.length > seen.length
      ? h("p", {class: "dim small"}, `and ${plural(where.length - seen.length, "more group")}`)
      : null,
    preferences.length
      ? h("p", {class: "dim small"}, `${plural(preferences.length, "preference")} for a level could not be met.`)
      : null,
  );
}

function inLine(queue) {
  if (!queue?.name) return null;
  const place = queue.position
    ? `number ${count(queue.position)} of ${count(queue.waiting)} that wait`
    : "not in line";
  return h("p", {class: "small"}, "Queue ", parts.queueLink(queue.name), h("span", {class: "dim"}, ` · ${place}`));
}

function waits(found) {
  if (!found.waitsFor?.length) return null;
  const line = ({node, pods}) => {
    const rest = pods.length > 4 ? ` and ${pods.length - 4} more` : "";
    const who = pods.length ? ` · ${pods.slice(0, 4).join(", ")}${rest}` : "";
    return h("li", {}, parts.named(node), h("span", {class: "dim", title: pods.join("\n")}, who));
  };
  return parts.section("Waits for pods to leave", h("ul", {class: "plain"}, found.waitsFor.map(line)));
}

function remedies(found) {
  if (!found.remedies?.length) return null;
  const one = ({message, command: line}) =>
    h("li", {"data-testid": "remedy"}, h("p", {}, message), line ? command(line) : null);
  return parts.section(
    "Would fix it",
    h("p", {class: "dim small"}, "Each was run through the scheduler, and the gang fits."),
    h("ol", {class: "remedies"}, found.remedies.map(one)),
  );
}

function proof(found) {
  if (!found.proof) return null;
  const steps = found.steps ? h("span", {class: "dim small"}, ` (${plural(found.steps, "step")} of search)`) : null;
  return parts.section("Proof", h("blockquote", {}, found.proof, steps));
}

/** An explanation, as `muster explain -o json` has it, as an element; `planned`: of what was only thought of. */
export function drawWhy(found, {planned = false} = {}) {
  const fine = allIsWell(found);
  const checks = found.checks || [];
  const near = (found.nearest || []).slice(0, 3);
  // Where all is passed a line says enough.
  const passed = checks.every((one) => one.passed);
  const notes = found.notes || [];
  return h(
    "div",
    {class: "why-body"},
    fine ? well(found, planned) : parts.sentence(found.message),
    passed && checks.length && !fine ? h("p", {class: "dim small"}, "Its minimum passes all checks:") : null,
    h("ol", {class: passed ? "ladder short" : "ladder", "aria-label": "Checks"}, checks.map(rung)),
    near.length ? parts.section("Nearest", h("ul", {class: "plain nears"}, near.map(nearest))) : null,
    waits(found),
    remedies(found),
    proof(found),
    notes.length
      ? parts.section(
          "Takes no room from others",
          h(
            "ul",
            {class: "plain"},
            notes.map((one) => h("li", {}, one)),
          ),
        )
      : null,
    losses("It loses", found.loses, true),
    losses("Others make room for it", found.displaces, false),
    inLine(found.queue),
  );
}

/** What of a gang makes its explanation another one: asking costs the scheduler some work. */
function signOf(gang) {
  return [gang.verdict, gang.satisfied, gang.state, gang.reason, gang.message, gang.position].join("\n");
}

/** The explanation of the selected gang, asked for when it may have become another one. */
class Why {
  constructor(element) {
    this.asked = "";
    this.shown = null;
    this.told = "";
    this.turn = 0;
    this.pause = 0;
    this.last = 0;
    this.body = h("div", {class: "why-box"});
    this.busy = h("div", {class: "busy", hidden: true, role: "status"}, "asking why …");
    element.append(this.busy, this.body);
    this.panel = parts.whileShown(["frame", "select"], () => this.draw());
  }

  show(route) {
    this.panel.show(route);
  }

  hide() {
    this.panel.hide();
  }

  draw() {
    const key = state.selected;
    const gang = parts.chosenGang();
    if (!gang) {
      this.turn++;
      this.asked = "";
      this.shown = null;
      replace(this.body);
      return;
    }
    const sign = `${key}\n${state.at}\n${signOf(gang)}`;
    if (sign === this.asked) return;
    this.asked = sign;
    if (this.shown !== key) {
      // What the frame knows already stands there until the whole answer comes.
      replace(this.body, parts.sentence(gang.message));
      this.ask(key);
    } else if (!this.pause) {
      // A cluster that changes all the time is asked every two seconds.
      this.pause = setTimeout(
        () => {
          this.pause = 0;
          if (state.selected === key) this.ask(key);
        },
        Math.max(300, this.last + 2000 - Date.now()),
      );
    }
  }

  async ask(key) {
    const mine = ++this.turn;
    this.last = Date.now();
    // Quick answers come without a flicker.
    const timer = setTimeout(() => {
      this.busy.hidden = mine !== this.turn;
    }, 350);
    try {
      const found = await api(gangPath(key, "explanation"));
      if (mine === this.turn) this.take(key, found);
    } catch (error) {
      if (mine !== this.turn) return;
      replace(
        this.body,
        problem(error, () => this.ask(key)),
      );
      this.shown = null;
    } finally {
      clearTimeout(timer);
      if (mine === this.turn) this.busy.hidden = true;
    }
  }

  take(key, found) {
    setNear(key, found.nearest || []);
    const text = JSON.stringify(found);
    // What stays the same is not drawn again, and nobody loses the words that they just selected.
    if (this.shown === key && (this.told === text || this.selecting())) return;
    const line = found.command
      ? [h("p", {class: "dim small"}, "The same on the command line:"), command(found.command)]
      : null;
    const planned = parts.chosenGang()?.state === "fits";
    replace(this.body, drawWhy(found, {planned}), line ? h("footer", {}, line) : null);
    this.shown = key;
    this.told = text;
  }

  selecting() {
    const chosen = getSelection();
    return Boolean(chosen && !chosen.isCollapsed && this.body.contains(chosen.anchorNode));
  }
}

/** Puts the explanation of the selected gang into an element. */
export function mount(element) {
  return new Why(element);
}
