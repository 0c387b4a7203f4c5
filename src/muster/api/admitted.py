"""The admission mark of a pod: the queue that admitted it, and the UID of its gang (SPEC §7).

muster sends the mark as an annotation of each Binding, and the API server copies it to the pod. The shipped admission
policy lets only muster set or change it, so it says who pays for a bound pod whatever is edited or deleted later.
"""

from typing import NamedTuple

from muster.api.cluster import ADMITTED_ANNOTATION, Pod

_LONGEST_QUEUE, _LONGEST_UID = 253, 64


class Mark(NamedTuple):
    """A queue by name, and the UID of the PodGroup that the pod was bound for."""

    queue: str
    uid: str

    @property
    def text(self) -> str:
        """The value of the annotation: `queue/uid`."""
        return f"{self.queue}/{self.uid}"


def mark_in(text: str) -> Mark | None:
    """The mark that a value says; None when it says none."""
    queue, slash, uid = text.rpartition("/")
    if not slash or not (0 < len(queue) <= _LONGEST_QUEUE and 0 < len(uid) <= _LONGEST_UID):
        return None
    return Mark(queue, uid) if text.isascii() and text.isprintable() else None


def mark_of(pod: Pod) -> Mark | None:
    """The mark of a pod; None when it has none that can be read."""
    return mark_in(pod.metadata.annotations.get(ADMITTED_ANNOTATION, ""))
