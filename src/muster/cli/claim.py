"""The kubeconfig that a playground writes: its own while it runs, and never a file of somebody else."""

import fcntl
import os
import shlex
import stat
from pathlib import Path
from typing import Self

from muster.embedded.identity import NAME
from muster.errors import UsageError
from muster.kube.kubeconfig import Kubeconfig, load

# Where kubeconfigs are put unless somebody says otherwise: the only folder that is made.
FOLDER = "~/.muster"


class Claim:
    """A file that only this process writes until it lets go. Raises UsageError when it is not ours to write.

    The lock ends with the process, however that ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.parent == Path(FOLDER).expanduser():
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            missing = f"make the folder {path.parent} first, or " if isinstance(error, FileNotFoundError) else ""
            hint = f"{missing}name another file with --kubeconfig"
            raise UsageError(f"can't write the kubeconfig {path}: {error.strerror}", hint) from None
        try:
            self._lock()
            self._check()
        except UsageError:
            self.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Whoever comes next may have it; a file in which nothing was written goes."""
        status = os.fstat(self._handle)
        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
            self.path.unlink(missing_ok=True)
        os.close(self._handle)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            hint = f"use that one: export KUBECONFIG={short(self.path)}; or name another file with --kubeconfig"
            raise UsageError(f"{self.path} is the kubeconfig of a playground that runs already", hint) from None

    def _check(self) -> None:
        """A new file, or one that an embedded server wrote."""
        status = os.fstat(self._handle)
        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
            return
        found = self._read() if stat.S_ISREG(status.st_mode) else None
        if found is None or NAME not in {*found.clusters, *found.users, *found.contexts}:
            hint = "name a file that does not exist yet with --kubeconfig"
            raise UsageError(f"{self.path} is there already, and no playground wrote it", hint)
        if list(found.clusters) != [NAME]:
            # Somebody used `kubectl config`: what was added would be lost.
            others = ", ".join(name for name in found.clusters if name != NAME) or "none any more"
            hint = f"mv {short(self.path)} elsewhere if you need it, else rm it; or name another file with --kubeconfig"
            raise UsageError(
                f"{self.path} was changed since a playground wrote it (clusters beside its own: {others})", hint
            )

    def _read(self) -> Kubeconfig | None:
        try:
            return load(self.path)
        except UsageError:
            return None


def short(path: Path) -> str:
    """A path as people write it, for a command that they copy."""
    quoted, home = shlex.quote(str(path)), f"{Path.home()}/"
    return f"~/{quoted.removeprefix(home)}" if quoted.startswith(home) else quoted
