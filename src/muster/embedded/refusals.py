"""How the embedded server says no: a status, Kubernetes' word for the reason, a sentence, and the fields at fault."""

from collections.abc import Sequence
from typing import NamedTuple

from muster.errors import MusterError


class Cause(NamedTuple):
    """One field at fault, as an item of `details.causes` of a metav1.Status."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Refused(MusterError):
    """A request cannot be granted: what a metav1.Status says of it. Warnings are shown beside it."""

    warnings: Sequence[str] = ()

    def __init__(self, status: int, reason: str, message: str, causes: Sequence[Cause] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)
