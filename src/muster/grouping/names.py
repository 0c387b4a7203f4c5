"""Any text becomes a name that Kubernetes takes. One that had to be changed is told apart by a short hash."""

import hashlib
import re

from muster.api.documents import shown
from muster.grouping.trouble import Trouble

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MOST_OF_LABEL, MOST_OF_NAME = 63, 253
_HASH = 6
_HINT = "use letters, digits and '-'"


def dns_label(text: str) -> str:
    """A DNS label: the text itself, if it is one. Raises Trouble when nothing of it can stay."""
    if len(text) <= MOST_OF_LABEL and _LABEL.fullmatch(text):
        return text
    return _changed(text, MOST_OF_LABEL, r"[^a-z0-9]+")


def dns_name(text: str) -> str:
    """A DNS name of labels with dots between. Raises Trouble when nothing of it can stay."""
    if len(text) <= MOST_OF_NAME and _NAME.fullmatch(text):
        return text
    return _changed(text, MOST_OF_NAME, r"[^a-z0-9]*\.[^a-z0-9]*|[^a-z0-9.]+")


def _changed(text: str, most: int, others: str) -> str:
    if any(not character.isprintable() for character in text):
        raise Trouble(f"{shown(text)} can't be a name: it holds characters that can't be shown", _HINT)
    # What is cut off can't hold the only usable characters of a name that anybody meant.
    kept = re.sub(others, lambda found: "." if "." in found[0] and most == MOST_OF_NAME else "-", text[:1000].lower())
    kept = kept.strip("-.")[: most - _HASH - 1].rstrip("-.")
    if not kept:
        raise Trouble(f"{shown(text)} can't be a name: there is no letter or digit in it", _HINT)
    return f"{kept}-{short_hash(text)}"


def short_hash(text: str) -> str:
    """Six digits that tell texts apart."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_HASH // 2).hexdigest()
