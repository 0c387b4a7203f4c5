// One look per gang: a colour of eight (Okabe-Ito, safe for colour-blind people), a mark of three, and a short label.
// Core, surplus, binding … are told by the filling, so the mark is a small shape and never a hatch.
import {h} from "./dom.js";

export const COLOURS = 8;
export const MARKS = 3;
const MOST_GONE = 100;
// No label may read as a slur, also with digits for letters: one that holds any of these is passed over.
const BLOCKED = (
  "ass azn btc chi chk cnt cok coc cum cun dic dik dyk fag fck fuc fuk fuq gay gok gyp hoe hor jap jew jig kik " +
  "kkk kyk lez nag naz ngr nig nip nog paj pak poo que sex sht shi slt slu spk suk tit wog wop yid"
).split(" ");
const given = new Map();
const labels = new Set();
const used = new Array(COLOURS).fill(0);
const watchers = new Set();
let tones = new Map();
let probe = null;

/** A whole number out of a text, the same everywhere and always (FNV-1a). */
export function hash(text) {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  return value >>> 0;
}

/** Two or three letters for a gang: "llama-train-7" → "lt7", "gang-0042" → "g42", "inference" → "inf". */
export function shortLabel(key) {
  const name = key.slice(key.indexOf("/") + 1);
  const words = name.split(/[^A-Za-z0-9]+/).filter(Boolean);
  if (words.length < 2) return name.slice(0, 3);
  const last = words[words.length - 1];
  const tail = /^\d+$/.test(last) ? last.slice(-2) : last[0];
  return (
    words
      .slice(0, -1)
      .map((word) => word[0])
      .join("")
      .slice(0, 2) + tail
  ).slice(0, 3);
}

/** Other labels for a gang, should another one have the first: by its number, its end, and at last by chance. */
function* otherLabels(key) {
  const name = key.slice(key.indexOf("/") + 1);
  const [first = "?"] = name.match(/[A-Za-z0-9]/) || [];
  const digits = (name.match(/\d+$/) || [""])[0];
  for (const most of [2, 3, 4]) if (digits.length >= most) yield first + digits.slice(-most);
  const end = name.replace(/[^A-Za-z0-9]+/g, "").slice(1);
  if (end.length > 2) yield first + end.slice(-2);
  for (const letter of end.slice(2)) yield first + end[0] + letter;
  for (let turn = 0; ; turn++) yield first + (hash(`${key} ${turn}`) % 46656).toString(36).padStart(3, "0");
}

/** May this be read aloud? */
export function isDecent(label) {
  const plain = label.toLowerCase().replace(/[013457]/g, (digit) => "oieast"["013457".indexOf(digit)]);
  return !BLOCKED.some((word) => plain.includes(word) || label.toLowerCase().includes(word));
}

/** Letters that no other gang has, and that may be read aloud. */
function freeLabel(key) {
  const wish = shortLabel(key);
  if (!labels.has(wish) && isDecent(wish)) return wish;
  for (const label of otherLabels(key)) if (!labels.has(label) && isDecent(label)) return label;
  return wish;
}

/** The look of a gang: {colour, mark, label}. By hash; when others wear that colour, the least worn one. */
export function look(key) {
  const known = given.get(key);
  if (known) return known;
  const wish = hash(key) % COLOURS;
  const fewest = Math.min(...used);
  let colour = wish;
  while (used[colour] > fewest) colour = (colour + 1) % COLOURS;
  const made = {colour, mark: used[colour] % MARKS, label: freeLabel(key)};
  used[colour]++;
  labels.add(made.label);
  given.set(key, made);
  return made;
}

/**
 * Give looks to the gangs of a frame in one order (oldest first). Who is not in it keeps its look: it may come back, or
 * somebody looks into the past. When there are many of these, the looks that were given first are free again.
 */
export function dress(gangs, ghosts = {}) {
  const most = 2 * Object.keys(gangs).length + MOST_GONE;
  for (const [key, {colour, label}] of given) {
    if (given.size <= most) break;
    if (key in gangs || key in ghosts) continue;
    used[colour]--;
    labels.delete(label);
    given.delete(key);
  }
  const fresh = Object.keys(gangs).filter((key) => !given.has(key));
  const born = (key) => gangs[key].created || "";
  fresh.sort((one, two) => (born(one) < born(two) ? -1 : born(one) > born(two) ? 1 : one < two ? -1 : 1));
  for (const key of fresh) look(key);
}

/** A small tile with a gang's colour, mark and label, as on the map. */
export function swatch(key) {
  const {colour, mark, label} = look(key);
  return h("span", {class: `swatch g${colour} m${mark}`, "aria-hidden": "true"}, label);
}

/** The value of a CSS variable of style.css as the current theme has it, for the canvas. */
export function tone(name) {
  let value = tones.get(name);
  if (value) return value;
  if (!probe) document.body.append((probe = h("span", {class: "off-screen"})));
  probe.style.color = `var(--${name})`;
  value = getComputedStyle(probe).color;
  tones.set(name, value);
  return value;
}

function changed() {
  tones = new Map();
  for (const fn of watchers) fn();
}

/** Call fn whenever the theme changes. */
export function onTheme(fn) {
  watchers.add(fn);
  return () => watchers.delete(fn);
}

/** Is the page dark now? */
export function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Choose "light" or "dark"; null follows the system. */
export function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    if (theme) localStorage.setItem("muster.theme", theme);
    else localStorage.removeItem("muster.theme");
  } catch {
    // it lasts as long as the page
  }
  changed();
}

/** Take over the theme chosen last time and follow the system's changes. */
export function startTheme() {
  let chosen = null;
  try {
    chosen = localStorage.getItem("muster.theme");
  } catch {
    // no storage: the system decides
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
