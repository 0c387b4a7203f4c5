"""A process that writes into a journal until it is killed: what it printed was acknowledged.

`python writer.py FILE SEED [STATEMENT]`: writes of a fixed sequence go on from the revision of the file. With STATEMENT
it kills itself right before it sends that statement to SQLite.
"""

import os
import random
import signal
import sys
from pathlib import Path

from muster.embedded.journal import Journal
from muster.embedded.store import Key, Store


def step(store: Store, seed: int) -> None:
    """The write that leads to the next revision; it depends on nothing but the seed and the revision."""
    chance = random.Random(f"{seed}/{store.revision}")  # noqa: S311
    key = Key("pods", "default", chance.choice("abcdefgh"))
    document = {"metadata": {"name": key.name}, "spec": {"n": store.revision, "text": "x" * chance.randrange(5000)}}
    if store.get(key) is None:
        store.create(key, document)
    elif chance.random() < 0.3:
        store.remove(key)
    else:
        store.replace(key, document, None)
    if chance.random() < 0.05:
        store.compact(store.revision - 20)


def main() -> None:
    """Write for ever."""
    path, seed = Path(sys.argv[1]), int(sys.argv[2])
    journal = Journal(path)
    if len(sys.argv) > 3:
        left = int(sys.argv[3])

        def count(statement: str) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        journal._file.set_trace_callback(count)
    while True:
        step(journal, seed)
        sys.stdout.write(f"{journal.revision}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
