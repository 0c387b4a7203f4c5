"""The store kept in one SQLite file: a write counts when it is on disk, so that nothing acknowledged is ever lost.

The write-ahead log of SQLite with synchronous=FULL does the work: one transaction a change, flushed before the change
is seen by anybody. Reopened, the store has the same documents, revisions and history.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from muster.embedded.store import DELETED, HISTORY, Change, Key, Store, Unwritten
from muster.errors import UsageError

FORMAT = 1
# "mustr" as a number: what `file` and we know the file by.
MARK = 0x6D757374

_TABLES = """
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, type TEXT NOT NULL,
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, document BLOB NOT NULL, before BLOB
);
CREATE TABLE documents (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, document BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""


class Journal(Store):
    """A store in a file. One process at a time: a second one is told so. Raises UsageError if the file is no good."""

    def __init__(self, path: Path, *, history: int = HISTORY) -> None:
        super().__init__(history=history)
        self.path = path
        # SQLite writes files beside it, and says "disk I/O error" when it may not.
        for place in (path, path.absolute().parent):
            if place.exists() and not os.access(place, os.W_OK):
                raise _unusable(path, sqlite3.OperationalError(f"{place} is readonly"))
        try:
            self._file = sqlite3.connect(path, isolation_level=None, timeout=1.0, check_same_thread=False)
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        try:
            self._open()
        except (sqlite3.Error, msgspec.MsgspecError, KeyError, ValueError, TypeError) as error:
            self._file.close()
            raise _unusable(path, error) from error

    def close(self) -> None:
        """Let go of the file; everything is in it already."""
        self._file.close()

    def _open(self) -> None:
        self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
        (mark,) = self._file.execute("PRAGMA application_id").fetchone()
        (version,) = self._file.execute("PRAGMA user_version").fetchone()
        (tables,) = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and mark != MARK:
            raise sqlite3.DatabaseError("it is a database of something else")
        if tables and version != FORMAT:
            raise sqlite3.DatabaseError(f"another version of muster wrote it (format {version}, this one has {FORMAT})")
        (found,) = self._file.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError("it is damaged")
        self._hide()
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._file.execute(f"PRAGMA {pragma}")
        if tables == 0:
            with self._transaction():
                for statement in _TABLES.split(";"):
                    self._file.execute(statement)
                self._count("revision", self.revision)
                self._count("compacted", self.compacted)
                self._file.execute(f"PRAGMA application_id={MARK}")
                self._file.execute(f"PRAGMA user_version={FORMAT}")
        self._load()
        # A file that can't be written, or that somebody else has, is found out now and not with the first change.
        with self._transaction():
            self._count("revision", self.revision)

    def _hide(self) -> None:
        """There are Secrets in it: nobody else reads it, whatever it was before."""
        for place in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            if place.exists() and place.stat().st_mode & 0o077:
                with contextlib.suppress(OSError):  # it is somebody else's, who let us write it
                    place.chmod(0o600)

    def _load(self) -> None:
        decode = _document
        for *key, document in self._file.execute("SELECT resource, namespace, name, document FROM documents"):
            self._absorb(Change(0, "", Key(*key), decode(document), None))
        self._history.clear()
        rows = self._file.execute("SELECT * FROM changes ORDER BY revision")
        for revision, type_, resource, namespace, name, document, before in rows:
            key = Key(resource, namespace, name)
            then = None if before is None else decode(before)
            self._history.append(Change(revision, type_, key, decode(document), then))
        counters = dict(self._file.execute("SELECT name, value FROM counters"))
        self.revision, self.compacted = counters["revision"], counters["compacted"]

    def _persist(self, change: Change) -> None:
        document = msgspec.json.encode(change.document)
        before = None if change.before is None else msgspec.json.encode(change.before)
        with self._kept(), self._transaction():
            self._file.execute(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)",
                (change.revision, change.type, *change.key, document, before),
            )
            if change.type == DELETED:
                self._file.execute("DELETE FROM documents WHERE (resource, namespace, name) = (?, ?, ?)", change.key)
            else:
                self._file.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)", (*change.key, document))
            self._count("revision", change.revision)

    def _persist_compaction(self, revision: int) -> None:
        with self._kept(), self._transaction():
            self._file.execute("DELETE FROM changes WHERE revision <= ?", (revision,))
            self._count("compacted", revision)

    def _count(self, name: str, value: int) -> None:
        self._file.execute("INSERT OR REPLACE INTO counters VALUES (?, ?)", (name, value))

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise Unwritten(f"the change could not be kept in {self.path}: {error}", _hint(str(error))) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            # Some failures, such as a full disk, have taken it back already.
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise


def _document(text: bytes) -> dict[str, Any]:
    """A document as it was written; raises an error that says that this is none."""
    found = msgspec.json.decode(text)
    if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict) or "name" not in found["metadata"]:
        raise ValueError("this is no document")
    return found


def _unusable(path: Path, error: Exception) -> UsageError:
    said = str(error)
    # What can't be read is not shown: it may be part of a Secret.
    if not isinstance(error, sqlite3.Error) or said.startswith("Could not decode"):
        said = "it is damaged: what is in it can't be read"
    return UsageError(f"{path} can't hold the cluster: {said}", _hint(said))


def _hint(said: str) -> str:
    for word, hint in _HINTS.items():
        if word in said:
            return hint
    return "name another file, or one that does not exist yet"


_HINTS = {
    "locked": "another process uses it; end that one, or name another file",
    "readonly": "give yourself the right to write it and its folder, or name another file",
    "unable to open": "its folder must exist, and you must be allowed to write there",
    "full": "make room on that disk, or name a file on another one",
    "disk I/O error": "look after that disk, or name a file on another one",
    "too big": "make room on that disk, or name a file on another one",
    "damaged": "name another file; keep this one if somebody is to look at it",
    "malformed": "it is damaged: name another file; keep this one if somebody is to look at it",
    "another version": "name another file; what is in this one can be applied again from manifests",
}
