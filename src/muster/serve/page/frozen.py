"""The page as one file that needs no server: the modules of `static/` and what they show, to attach to a ticket.

There is no build tool: each module becomes a function, and `import` and `export` become a look into what it gave away.
Only the forms of both that our modules use are known; any other is a mistake in them.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from html import escape
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from muster.serve.page.assets import STATIC

# What a file may do: run this script, wear this style, and fetch nothing.
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src {styles}; img-src data:; base-uri 'none'; form-action 'none'"
)
_STYLESHEET = re.compile(r'[ \t]*<link rel="stylesheet" href="(?P<file>[\w.-]+)"\s*/?>\n?')
_HINT = re.compile(r'[ \t]*<link rel="(?:modulepreload|preload)"[^>]*>\n?')
_SCRIPT = re.compile(r'<script type="module" src="(?P<file>[\w.-]+)"></script>')
_TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
_IMPORT = re.compile(r'^import\s+(?:(?P<what>\{[^}"]*\}|\* as \w+)\s+from\s+)?"\./(?P<file>[\w.-]+)";?', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+(?=(?:async\s+)?(?:function\*?|class|const)\s+(?P<name>[\w$]+))", re.MULTILINE)
_LISTED = re.compile(r"^export\s+\{(?P<names>[^}]*)\};?", re.MULTILINE)
_LATER = re.compile(r'\bimport\("\./(?P<file>[\w.-]+)"\)')
_UNKNOWN = re.compile(r"^(?:import|export)\b.*|\bimport\.meta\b|\bimport\(.*", re.MULTILINE)
_NEED = """
const made = {};
const need = (name) => {
  if (!(name in made)) {
    made[name] = {};
    modules[name](made[name]);
  }
  return made[name];
};
"""


def frozen(shown: Mapping[str, Any], title: str = "muster", static: Traversable = STATIC) -> str:
    """The page with `shown` in it: frame, timeline, and explanations by gang."""
    page = _HINT.sub("", static.joinpath("index.html").read_text(encoding="utf-8"))
    styles = [_text(static, one["file"]) for one in _STYLESHEET.finditer(page)]
    entry = _SCRIPT.search(page)
    assert entry is not None, "index.html starts a module"
    script = _closed(bundle(entry["file"], static))
    policy = _POLICY.format(script=_digest(script), styles=" ".join(f"'{_digest(text)}'" for text in styles))
    page = _STYLESHEET.sub("", page)
    page = _SCRIPT.sub(lambda _: f"{_data(shown)}\n<script type=module>{script}</script>", page, count=1)
    page = _TITLE.sub(lambda _: f"<title>{escape(title)}</title>", page, count=1)
    head = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
    head += "".join(f"<style>{text}</style>\n" for text in styles)
    charset = re.search(r"<meta charset=[^>]*>\n?", page)
    assert charset is not None, "index.html names its charset"
    return page[: charset.end()] + head + page[charset.end() :]


def bundle(entry: str, static: Traversable = STATIC) -> str:
    """The module `entry` and all that it needs, as one script."""
    found: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name], needed = _wrapped(name, _text(static, name))
            waiting += needed
    modules = ",\n".join(f'"{name}": (gives) => {{\n{body}}}' for name, body in sorted(found.items()))
    return f'"use strict";\nconst modules = {{\n{modules}}};{_NEED}need("{entry}");\n'


def _wrapped(name: str, text: str) -> tuple[str, list[str]]:
    """A module as the body of a function, and the modules that it needs."""
    needed = [one["file"] for pattern in (_IMPORT, _LATER) for one in pattern.finditer(text)]
    given = [one["name"] for one in _EXPORT.finditer(text)]
    for one in _LISTED.finditer(text):
        given += [word.strip() for word in one["names"].split(",") if word.strip()]
    body = _LISTED.sub("", _EXPORT.sub("", text))
    body = _LATER.sub(r'Promise.resolve().then(() => need("\g<file>"))', _IMPORT.sub(_needs, body))
    unknown = [one[0] for one in _UNKNOWN.finditer(body)]
    assert not unknown, f"{name}: {unknown} can't be frozen"
    assert all(re.fullmatch(r"[\w$]+", one) for one in given), f"{name}: an export under another name can't be frozen"
    # Before everything else, so that modules that need each other find functions.
    getters = ", ".join(f"{one}: {{enumerable: true, get: () => {one}}}" for one in given)
    return f"Object.defineProperties(gives, {{{getters}}});\n{body}", needed


def _needs(one: re.Match[str]) -> str:
    what = one["what"]
    if what is None:
        return f'need("{one["file"]}");'
    names = what.removeprefix("* as ") if what.startswith("*") else re.sub(r"\s+as\s+", ": ", what)
    return f'const {names} = need("{one["file"]}");'


def _text(static: Traversable, name: str) -> str:
    return static.joinpath(name).read_text(encoding="utf-8")


def _data(shown: Mapping[str, Any]) -> str:
    """As a block of data that nothing in it can end: only `<` could."""
    text = msgspec.json.encode(shown).decode().replace("<", "\\u003c")
    return f'<script type="application/json" id="frozen">{text}</script>'


def _closed(script: str) -> str:
    """A script that ends where it ends: in strings and comments, which is where these can stand, they mean the same."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
