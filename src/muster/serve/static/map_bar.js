// The line above the map: the way in, the topology that it is shown by, and what to know about that.
import {formatRoute} from "./delta.js";
import {h, replace} from "./dom.js";
import {heldIn} from "./map_over.js";
import {go, href, route} from "./state.js";

/**
 * What to say about the topology: {words}, with {name} when it would help to switch to that one; null: nothing. `asked`
 * is what the address names, `shown` the one of the map, null for none.
 */
export function noteOf(frame, asked, shown, gang) {
  const known = (frame.topologies || []).map(({name}) => name);
  const here = shown === null ? "flat" : `in ${shown}`;
  if (asked && asked !== "-" && !known.includes(asked)) return {words: `there is no Topology ${asked}: shown ${here}`};
  const held = heldIn(gang, shown);
  const name = held.others.find((one) => known.includes(one));
  if (!name) return null;
  const words = held.here ? `held in ${name} too: switch` : `shown ${here}; its levels are of ${name}: switch`;
  return {words, name};
}

/** Its parts; `act`: {zoom(by), fit(), zoomTo(box), zoomToGang()}. */
export class Bar {
  constructor(act) {
    this.act = act;
    this.path = h("div", {class: "map-path"});
    this.note = h("span", {class: "map-note", role: "status"});
    this.choice = h("select", {
      "aria-label": "Topology",
      title: "Topology",
      onchange: () => {
        const {view, parts} = route();
        go(`${href(view, ...parts)}?topology=${encodeURIComponent(this.choice.value)}`);
      },
    });
    const button = (text, label, fn) =>
      h("button", {type: "button", class: "quiet", title: label, "aria-label": label, onclick: fn}, text);
    this.toGang = h(
      "button",
      {type: "button", title: "Zoom to the gang (z)", hidden: true, onclick: act.zoomToGang},
      "zoom to gang",
    );
    this.element = h(
      "div",
      {class: "map-bar"},
      this.path,
      this.note,
      this.toGang,
      this.choice,
      h(
        "div",
        {class: "zoom"},
        button("−", "Zoom out (−)", () => act.zoom(1 / 1.5)),
        button("+", "Zoom in (+)", () => act.zoom(1.5)),
        button("fit", "Show everything (0)", act.fit),
      ),
    );
  }

  /** The topologies that there are, by the one that is shown: its index, or -1. */
  choose({topologies = []}, shown) {
    const options = [
      ...topologies.map(({name, levels}) => [name, `${name}: ${levels.join(" › ")}`]),
      ["-", "flat: nodes only"],
    ];
    this.choice.hidden = topologies.length === 0;
    const text = JSON.stringify(options);
    if (text !== this.options) {
      this.options = text;
      replace(
        this.choice,
        options.map(([value, words]) => h("option", {value}, words)),
      );
    }
    this.choice.value = shown < 0 ? "-" : topologies[shown].name;
  }

  /** What is to be known about the topology, for the chosen gang. */
  tell(frame, shown, gang) {
    const {view, parts, query} = route();
    const note = noteOf(frame, query.topology, shown, gang);
    const to = note?.name && formatRoute({view, parts, query: {...query, topology: note.name}});
    const said = {class: "chip", title: note?.words, data: {testid: "topology-note"}};
    replace(this.note, note && (to ? h("a", {...said, href: to}, note.words) : h("span", said, note.words)));
  }

  /** The domains that one is in, from the whole inward. */
  trail(boxes) {
    const text = boxes.map((box) => box.path).join("\n");
    if (text === this.way && this.path.childElementCount) return;
    this.way = text;
    replace(
      this.path,
      boxes.map((box, depth) => [
        depth ? " › " : null,
        h("button", {type: "button", onclick: () => this.act.zoomTo(box)}, depth ? box.name : "all nodes"),
      ]),
    );
  }
}
