"""The page as somebody sees it: its parts by their data-testid, and everything that the browser complains about."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

# Everything that the policy stops becomes a complaint, whatever the console makes of it.
WATCH = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} stopped ${event.blockedURI} (${event.sourceFile})`));
window.gaps = (forMs) => new Promise((done) => {
  let last = performance.now(), worst = 0, frames = 0;
  const until = last + forMs;
  const beat = (now) => {
    worst = Math.max(worst, now - last); last = now; frames += 1;
    if (now < until) requestAnimationFrame(beat); else done({worst, frames});
  };
  requestAnimationFrame(beat);
});
"""
WITHIN_MS = 30_000
# Parts that have a sign of their own.
SIGNS = {
    "search": "#search",
    "theme": "[aria-label='Light or dark']",
    "sign-in": ".sign-in",
    "token": ".sign-in input",
    "help": "dialog.keys",
    "empty": ".empty",
    "problem": ".problem, .past .bad",
    "tooltip": ".tip",
    "now": ".past button",
    "waiting": ".waiters",
}


class Looking:
    """A page that is open, or about to be. What the browser complains about is in `complaints`."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WITHIN_MS)
        self.page.add_init_script(WATCH)
        self.complaints: list[str] = []
        self._forgiven: list[re.Pattern[str]] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"{error.name}: {error.stack or error.message}"))
        self.page.on("request", self._request)
        self.page.on("dialog", self._dialog)
        self.origin = ""

    def _console(self, message: ConsoleMessage) -> None:
        said = f"{message.text} {message.location.get('url', '')}"
        if message.type in ("error", "warning") and not any(one.search(said) for one in self._forgiven):
            self.complaints.append(said)

    def _request(self, request: Request) -> None:
        if self.origin and not request.url.startswith((f"{self.origin}/", "data:")):
            self.complaints.append(f"asked for {request.url}")

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    @contextmanager
    def forgiving(self, *patterns: str) -> Iterator[None]:
        """Within, the browser may complain about this."""
        self._forgiven = [re.compile(pattern) for pattern in patterns]
        yield
        # What was said shortly before may arrive a little later.
        self.page.wait_for_timeout(100)
        self._forgiven = []

    # Going somewhere.

    def open(self, address: str, view: str = "") -> "Looking":
        """The address that muster printed; then a view, as `#/queues`."""
        self.origin = address.partition("/#")[0] if address.startswith("http") else ""
        self.page.goto(address)
        self.drawn()
        if view:
            self.go(view)
        return self

    def go(self, view: str) -> None:
        """As if the address were typed."""
        self.page.evaluate("(hash) => { location.hash = hash }", view)

    @property
    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    # Parts.

    def part(self, name: str) -> Locator:
        return self.page.locator(SIGNS[name]) if name in SIGNS else self.page.get_by_test_id(name)

    def gang_row(self, key: str) -> Locator:
        """The row of a gang in the list."""
        # Quotes as CSS has them, so that any name will do.
        return self.page.locator(f'[data-testid="gang-row"][data-gang={_quoted(key)}]')

    @property
    def map(self) -> Locator:
        return self.part("map")

    def drawn(self, at_least: int = 1) -> int:
        """How many nodes the map has drawn, once it has so many."""
        wait = '(least) => Number(document.querySelector("[data-testid=map]")?.dataset.drawn ?? -1) >= least'
        self.page.wait_for_function(wait, arg=at_least)
        return int(self.map.get_attribute("data-drawn") or 0)

    def slots_of(self, gang: str) -> Any:
        """What the map says of a gang's slots."""
        return self.page.evaluate("(gang) => window.musterMap.slotsOf(gang)", gang)

    def where(self, node: str) -> dict[str, float]:
        """The box of a node on the map, in pixels of the window."""
        return dict(self.page.evaluate("(node) => window.musterMap.where(node)", node))

    def point_at(self, node: str, across: float = 0.25, down: float = 0.42, *, click: bool = False) -> None:
        """The mouse on a node, where its first slots are."""
        box = self.where(node)
        at = box["x"] + box["w"] * across, box["y"] + box["h"] * down
        self.page.mouse.move(*at)
        if click:
            self.page.mouse.click(*at)

    def api(self, path: str, **options: Any) -> Any:
        """What the server says to somebody who is signed in."""
        ask = """async ([path, options]) => {
          const token = sessionStorage.getItem("muster.token") || localStorage.getItem("muster.token");
          const answer = await fetch(path, {...options, headers: {Authorization: `Bearer ${token}`}});
          return await answer.json();
        }"""
        return self.page.evaluate(ask, [path, options])

    def is_live(self) -> None:
        expect(self.part("connection")).to_contain_text(re.compile("live|file", re.IGNORECASE), timeout=WITHIN_MS)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
