"""Hostile documents, stored and generated: they are judged like any other, at bounded cost, and nothing breaks."""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.api import documents
from muster.api.podgroup import MAX_SUBGROUPS
from muster.api.validation import ERROR, Context, Violation, validate

CORPUS = sorted((Path(__file__).parents[1] / "fuzz" / "corpus").iterdir())
# Far more than anything here takes.
SECONDS, BYTES = 10, 300_000_000

HEAD = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: giant}\nspec:\n"


def judged(data: bytes) -> list[list[Violation]]:
    """Per document: every error, in reading it or in what it says."""
    found = []
    for document in documents.read(data):
        violations = [Violation(ERROR, *problem[:3]) for problem in document.problems]
        if document.value is not None:
            violations += validate(document.value, Context()).violations
        assert all("".join(violation).isprintable() for violation in violations)
        found.append([violation for violation in violations if violation.severity == ERROR])
    return found


def test_the_corpus_is_there() -> None:
    """Every file says what is expected of it, and is small; giants are made below."""
    assert len(CORPUS) >= 15
    assert all(path.name.startswith(("bad-", "good-")) and path.stat().st_size < 20_000 for path in CORPUS)


@pytest.mark.parametrize("path", CORPUS, ids=[path.name for path in CORPUS])
def test_corpus(path: Path) -> None:
    """Each document of a bad file has an error, and no document of a good one has."""
    start = time.process_time()
    found = judged(path.read_bytes())
    assert time.process_time() - start < SECONDS
    assert found
    if path.name.startswith("good-"):
        assert found == [[]] * len(found)
    else:
        assert all(found)


def subgroups(count: int, line: Callable[[int], str]) -> bytes:
    return (HEAD + "  subGroups:\n" + "".join(f"  - {{{line(number)}}}\n" for number in range(count))).encode()


BAD_GIANTS = {
    "yaml-10000-deep": lambda: HEAD.encode() + b"  a: " + b"{a: " * 10_000 + b"}" * 10_000,
    "yaml-block-10000-deep": lambda: b"- " * 10_000 + b"a",
    "yaml-keys-10000-deep": lambda: b"? " * 10_000 + b"a",
    "json-10000-deep": lambda: b'{"a": ' * 10_000 + b"1" + b"}" * 10_000,
    "yaml-100000-brackets": lambda: b"[" * 100_000,
    "yaml-100000-pairs-of-brackets": lambda: b"[" * 100_000 + b"]" * 100_000,
    "json-100000-brackets": lambda: b'{"a": ' + b"[" * 100_000,
    "json-100000-braces": lambda: b'{"a":\n' * 100_000,
    "json-100000-unread": lambda: b"{]\n" * 100_000,
    "json-quotes": lambda: b'{"a": 1}{' + b'"\\' * 300_000,
    "one-subgroup-too-many": lambda: subgroups(MAX_SUBGROUPS + 1, lambda i: f"name: s{i}, minMember: 1"),
    "subgroups-in-a-chain": lambda: subgroups(10_000, lambda i: f"name: s{i}, parent: s{i - 1 if i else 9_999}"),
    "subgroups-too-deep": lambda: subgroups(10_000, lambda i: f"name: s{i}, parent: {f's{i - 1}' if i else ''}"),
    "subgroups-without-parents": lambda: subgroups(10_000, lambda i: f"name: s{i}, parent: t{i}, minMember: 1"),
    "subgroups-of-one-name": lambda: subgroups(10_000, "name: same, minMember: 1".format),
    "subgroups-that-are-none": lambda: HEAD.encode() + b"  subGroups: [" + b"1," * 50_000 + b"]",
    "unknown-fields": lambda: subgroups(1_000, lambda i: ", ".join(f"minMembr{i}x{j}: 1" for j in range(12))),
    "over-1-mib": lambda: HEAD.encode() + b"  queue: " + b"x" * 1_100_000,
    "over-1-mib-of-keys": lambda: HEAD.encode() + b"".join(b"  key%d: 1\n" % number for number in range(100_000)),
    "over-1-mib-of-json": lambda: b'{"kind": "PodGroup", "a": [' + b"1," * 600_000 + b"1]}",
    "duplicate-keys": lambda: HEAD.encode() + b"  queue: a\n" * 40_000,
    "number-of-a-million-digits": lambda: HEAD.encode() + b"  minMember: " + b"9" * 1_000_000,
    "name-of-a-million-characters": lambda: HEAD.replace("giant", "a-" * 500_000).encode(),
}
GOOD_GIANTS = {
    "10000-subgroups": lambda: subgroups(MAX_SUBGROUPS, lambda i: f"name: s{i}, minMember: 1"),
    "10000-subgroups-in-64-levels": lambda: subgroups(
        MAX_SUBGROUPS,
        lambda i: (
            f"name: s{i}, parent: {f's{i - 1}' if i % 64 else ''}, {'minMember: 1' * (i % 64 == 63 or i == 9_999)}"
        ),
    ),
    "list-over-1-mib": lambda: b"apiVersion: v1\nkind: List\nitems:\n" + (b"- " + b"x" * 1000 + b"\n") * 1100,
    "comments": lambda: b"# " + b"x" * 300_000 + b"\n" + b"# x\n" * 100_000 + HEAD.encode() + b"  minMember: 1\n",
    "empty-documents": lambda: b"---\n# a\n" * 100_000 + b"---\n" + HEAD.encode() + b"  minMember: 1\n",
}


def cost_of(data: bytes) -> tuple[list[list[Violation]], float, int]:
    """What was found, the seconds and the bytes it took."""
    tracemalloc.start()
    try:
        start = time.process_time()
        found = judged(data)
        return found, time.process_time() - start, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("made", BAD_GIANTS.values(), ids=BAD_GIANTS)
def test_bad_giants(made: Callable[[], bytes]) -> None:
    """What is too deep, too large or too many is said to be so, at bounded cost."""
    found, seconds, size = cost_of(made())
    assert any(found)
    assert seconds < SECONDS
    assert size < BYTES


@pytest.mark.parametrize("made", GOOD_GIANTS.values(), ids=GOOD_GIANTS)
def test_good_giants(made: Callable[[], bytes]) -> None:
    """What is just large enough is right, at bounded cost."""
    found, seconds, size = cost_of(made())
    assert found == [[]]
    assert seconds < SECONDS
    assert size < BYTES
