"""Nothing acknowledged is lost: a process that writes is killed with SIGKILL, again and again, at any point."""

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from muster.embedded.journal import Journal
from muster.embedded.store import Store
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
    with pytest.raises(sqlite3.OperationalError):
        step(journal, 1)
    assert (journal.list("pods"), journal.revision, heard) == (before, 2, [])
    journal._file.execute("PRAGMA query_only=OFF")
    step(journal, 1)
    assert journal.revision == 3
    journal.close()
