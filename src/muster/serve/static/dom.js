// Elements without markup in strings: every text from a cluster becomes a text node, so no name can turn into HTML.

// Letters that turn round what stands beside them: a name of a cluster shall not rearrange our words.
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child).replace(TURNING, "\ufffd"));
  }
}

/** An element: h("a", {class: "x", href: "#/map", onclick: f, data: {gang: key}, style: {"--w": 3}}, "text"). */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, of] of Object.entries(value)) element.style.setProperty(key, of);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Replace everything inside `element`. */
export function replace(element, ...children) {
  const parts = document.createDocumentFragment();
  append(parts, children);
  element.replaceChildren(parts);
  return element;
}

/** A function that runs `fn` once at the next animation frame, however often it is called before. */
export function later(fn) {
  let asked = 0;
  return () => {
    if (!asked)
      asked = requestAnimationFrame(() => {
        asked = 0;
        fn();
      });
  };
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", {class: "off-screen", value: text});
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** A button that copies `text` and says so. */
export function copyButton(text, label = "copy") {
  const button = h("button", {type: "button", class: "copy", title: "Copy to the clipboard"}, label);
  button.addEventListener("click", async (event) => {
    event.stopPropagation();
    await toClipboard(text);
    button.textContent = "copied";
    say("copied");
    setTimeout(() => {
      button.textContent = label;
    }, 1500);
  });
  return button;
}

/** A command line with its copy button. */
export function command(text) {
  return h("div", {class: "command"}, h("code", null, text), copyButton(text));
}

/** What a panel shows when there is nothing: a title, what to do, and the command that does it. */
export function empty(title, text, line) {
  return h(
    "div",
    {class: "empty"},
    h("strong", null, title),
    text ? h("p", null, text) : null,
    line ? command(line) : null,
  );
}

/** What a panel shows when something failed: the error and its hint; `again` adds a button. */
export function problem(error, again) {
  return h(
    "div",
    {class: "problem", role: "alert"},
    h("strong", null, error.error || error.message || String(error)),
    error.hint ? h("p", null, error.hint) : null,
    again ? h("button", {type: "button", onclick: again}, "try again") : null,
  );
}

/** Tell people who listen instead of look. */
export function say(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}

/** A number as people write it: at most one decimal, thousands apart. */
export function count(value) {
  if (value === null || value === undefined) return "–";
  return (Math.round(value * 10) / 10).toLocaleString("en-US");
}

/** "1 pod", "3 pods". */
export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** How long ago `at` (RFC 3339) was, seen from `now` (RFC 3339 or milliseconds): "8s", "5m", "3h", "2d". */
export function ago(at, now = Date.now()) {
  const seconds = Math.max(0, Math.round((new Date(now) - new Date(at)) / 1000));
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** Clock time of `at` in the reader's zone. */
export function clock(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString([], {hour12: false});
}
