"""Why a workload or a pod can't be grouped. It costs that one alone: the grouper catches it and makes it data."""

from typing import Any

from muster.errors import MusterError

# A ClusterRole with this label adds to what the grouper may read.
AGGREGATE_LABEL = "muster.dev/aggregate-to-grouper"
ROLE_HINT = "docs/install.md has one to copy"


def right_to_read(group: str, kind: str) -> str:
    """How it is mended that a kind may not be read."""
    what = f"{kind}.{group}" if group else kind
    return f'grant muster get, list and watch on {what} with a ClusterRole that has the label {AGGREGATE_LABEL}: "true"'


class Trouble(MusterError):
    """One workload or pod can't be grouped now. `path` is the field of the ResourceInterface that it is about.

    With `retry` it is only a matter of time: an object was not seen yet, or may not be read yet. `about` is that object
    as kind, namespace and name, when it is not the workload itself; `heard` are the expressions asked until then.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        path: str = "",
        retry: bool = False,
        about: tuple[str, str, str] | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.path = path
        self.retry = retry
        self.about = about
        self.heard: tuple[Any, ...] = ()
