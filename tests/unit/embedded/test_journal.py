"""Nothing acknowledged is lost: a process that writes is killed with SIGKILL, again and again, at any point."""

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.embedded.exchange import Answer, Request
from muster.embedded.journal import FORMAT, Journal
from muster.embedded.server import Server
from muster.embedded.store import Key, Store, Unwritten
from muster.errors import UsageError
from unit.embedded.writer import step

WRITER = Path(__file__).with_name("writer.py")


def killed(path: Path, seed: int, *, after: int = 0, statement: int = 0) -> int:
    """The last revision that a writer acknowledged before it was killed: after so many, or before a statement."""
    command = [sys.executable, str(WRITER), str(path), str(seed), *([str(statement)] if statement else [])]
    acknowledged = 1
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        for count, line in enumerate(writer.stdout, 1):
            if line.endswith("\n"):
                acknowledged = int(line)
            if after and count == after:
                writer.kill()
    assert writer.returncode == -9
    return acknowledged


def assert_same_as_memory(journal: Journal, seed: int) -> None:
    """The file holds what the same writes give in memory."""
    memory = Store()
    while memory.revision < journal.revision:
        step(memory, seed)
    assert journal.list("pods") == memory.list("pods")
    start = max(journal.compacted, memory.compacted)
    assert journal.since(start, "pods") == memory.since(start, "pods")


def test_a_writer_killed_while_it_writes_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Killed while it is busy with the writes after the one that was heard of; at most those are there as well."""
    path = tmp_path / "cluster.db"
    chance = random.Random(7)  # noqa: S311
    last = 1
    for _ in range(4):
        acknowledged = killed(path, 7, after=chance.randrange(1, 60))
        assert acknowledged > last
        journal = Journal(path)
        assert journal.revision >= acknowledged
        assert_same_as_memory(journal, 7)
        last = journal.revision
        journal.close()


@pytest.mark.parametrize("statement", [1, 2, 3, 4, 5, 6, 9, 14, 23, 40])
def test_a_writer_killed_between_two_statements_leaves_whole_writes(tmp_path: Path, statement: int) -> None:
    """Before its BEGIN, between the parts of a write, before its COMMIT: the last write is there or it is not."""
    path = tmp_path / "cluster.db"
    acknowledged = killed(path, statement, statement=statement)
    journal = Journal(path)
    assert journal.revision in (acknowledged, acknowledged + 1)
    assert_same_as_memory(journal, statement)
    step(journal, statement)
    journal.close()


def test_every_commit_is_flushed_to_the_disk(tmp_path: Path) -> None:
    """A write-ahead log with synchronous=FULL; with less, a power cut could take back what was acknowledged."""
    journal = Journal(tmp_path / "cluster.db")
    assert journal._file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._file.execute("PRAGMA synchronous").fetchone() == (2,)
    journal.close()


def test_a_second_process_is_told_that_the_file_is_in_use(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "cluster.db")
    step(journal, 1)
    with pytest.raises(UsageError, match="locked") as error:
        Journal(tmp_path / "cluster.db")
    assert "another process" in error.value.hint
    journal.close()


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to look like one " * 20)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    for path in (text, other):
        content = path.read_bytes()
        with pytest.raises(UsageError, match=path.name):
            Journal(path)
        assert path.read_bytes() == content


def test_a_write_that_the_disk_refuses_did_not_happen(tmp_path: Path) -> None:
    """Neither in the file nor in memory, and nobody hears of it."""
    journal = Journal(tmp_path / "cluster.db")
    step(journal, 1)
    heard: list[object] = []
    journal.subscribe(heard.append)
    before = journal.list("pods")
    journal._file.execute("PRAGMA query_only=ON")
    with pytest.raises(Unwritten, match=r"cluster\.db"):
        step(journal, 1)
    assert (journal.list("pods"), journal.revision, heard) == (before, 2, [])
    journal._file.execute("PRAGMA query_only=OFF")
    step(journal, 1)
    assert journal.revision == 3
    journal.close()


def test_a_process_that_only_opened_the_file_has_it_too(tmp_path: Path) -> None:
    """Another process is refused before it has read anything."""
    path = tmp_path / "cluster.db"
    Journal(path).close()
    journal = Journal(path)
    code = f"from pathlib import Path; from muster.embedded.journal import Journal; Journal(Path({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "UsageError" in done.stderr
    assert "locked" in done.stderr
    journal.close()
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def _other_format(path: Path) -> None:
    Journal(path).close()
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version={FORMAT + 1}")
    file.close()


def _damaged(path: Path) -> None:
    journal = Journal(path)
    step(journal, 1)
    journal.close()
    with sqlite3.connect(path) as file:
        file.execute("UPDATE documents SET document = x'7b'")
    file.close()


def _not_text(path: Path) -> None:
    _damaged(path)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE documents SET document = x'7b2261223a22ff227d'")
    file.close()


def _no_text(path: Path) -> None:
    _damaged(path)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE documents SET document = CAST(x'7b2261223a22ff227d' AS TEXT)")
    file.close()


def _no_document(path: Path) -> None:
    _damaged(path)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE documents SET document = CAST('[1]' AS BLOB)")
    file.close()


@pytest.mark.parametrize("seed", range(150))
def test_a_file_with_other_bytes_is_refused_or_opened(tmp_path: Path, seed: int) -> None:
    """Never anything but a UsageError."""
    path, chance = tmp_path / "cluster.db", random.Random(seed)  # noqa: S311
    journal = Journal(path)
    for _ in range(20):
        step(journal, 1)
    journal.close()
    spoilt = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 8, 64])):
        spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
    path.write_bytes(spoilt)
    with contextlib.suppress(UsageError):
        Journal(path).close()


def test_a_file_that_others_may_read_is_so_no_longer(tmp_path: Path) -> None:
    """There are Secrets in it."""
    path = tmp_path / "cluster.db"
    Journal(path).close()
    path.chmod(0o644)
    Journal(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_of_something_else_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE other (a)")
    file.close()
    path.chmod(0o644)
    with pytest.raises(UsageError):
        Journal(path)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("spoil", "says", "hint"),
    [
        (_not_text, "damaged", "name another file"),
        (_no_text, "damaged", "name another file"),
        (_no_document, "damaged", "name another file"),
        (_other_format, "another version of muster", "name another file"),
        (_damaged, "can't be read", "name another file"),
        (lambda path: path.mkdir(), "unable to open", "folder"),
    ],
)
def test_a_file_that_is_no_good_is_refused_with_what_to_do(
    tmp_path: Path, spoil: Callable[[Path], None], says: str, hint: str
) -> None:
    path = tmp_path / "cluster.db"
    spoil(path)
    with pytest.raises(UsageError, match=says) as error:
        Journal(path)
    assert path.name in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize("name", ["cluster.db", "folder"])
def test_a_file_that_may_not_be_written_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Not with the first change; and its folder too, where SQLite has its own files. Root may write everything, so that
    who may is put on a stage here.
    """
    path = tmp_path / "folder" / "cluster.db"
    path.parent.mkdir()
    Journal(path).close()
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place).name != name)
    with pytest.raises(UsageError, match=f"{name} is readonly") as error:
        Journal(path)
    assert "right to write" in error.value.hint


def test_on_a_full_disk_nothing_is_acknowledged_and_nothing_is_lost(tmp_path: Path) -> None:
    """The request is answered with 500, what was there stays, and with room again it goes on."""
    journal = Journal(tmp_path / "cluster.db")
    server = Server(journal, clock=lambda: 1.8e9, new_uid=lambda: f"u{journal.revision}", suffix=lambda: "x")
    maps = "/api/v1/namespaces/default/configmaps"

    def create(name: str) -> Answer:
        body = json.dumps({"metadata": {"name": name}, "data": {"a": "x" * 50_000}}).encode()
        return server.handle(Request("POST", maps, body=body))

    assert create("first").status == 201
    (pages,) = journal._file.execute("PRAGMA page_count").fetchone()
    journal._file.execute(f"PRAGMA max_page_count={pages}")
    before = journal.revision
    refused = create("second")
    assert (refused.status, refused.json()["reason"]) == (500, "InternalError")
    assert "could not be kept" in refused.json()["message"]
    assert journal.revision == before
    assert journal.get(Key("configmaps", "default", "second")) is None
    journal._file.execute("PRAGMA max_page_count=100000")
    assert create("second").status == 201
    held = journal.list("configmaps")
    journal.close()
    assert Journal(tmp_path / "cluster.db").list("configmaps") == held


def test_a_change_that_was_kept_is_told_though_the_history_could_not_be_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "cluster.db", history=10)
    heard: list[int] = []
    journal.subscribe(lambda change: heard.append(change.revision))

    def fail(revision: int) -> None:
        raise Unwritten("full")

    monkeypatch.setattr(journal, "_persist_compaction", fail)
    while journal.revision < 20:
        step(journal, 3)
    assert heard == list(range(2, 21))
    monkeypatch.undo()
    step(journal, 3)
    assert journal.compacted > 1
    journal.close()
