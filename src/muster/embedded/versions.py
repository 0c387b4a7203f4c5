"""Which version of what is kept a read asks for: the present one, one of the past, one that is not there yet."""

from collections.abc import Mapping

from muster.embedded.core import Core
from muster.embedded.exchange import Said, bad_request, denied, unsupported
from muster.embedded.refusals import Cause

EXACT, NOT_OLDER, _MATCH = "Exact", "NotOlderThan", "resourceVersionMatch"


def revision_asked(core: Core, query: Mapping[str, str], limit: int) -> int:
    """The revision of the past that a list shall show; 0 is the present, which is older than nothing."""
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    _check_options(_list_causes(query))
    if version in ("", "0"):
        return 0
    if query.get("continue"):
        raise bad_request("specifying resource version is not allowed when using continue")
    revision = version_of(version)
    check_not_too_large(core, revision)
    # Pages of a version that is named are of just this one, whether it is said or not.
    return revision if match == EXACT or (not match and limit) else 0


def is_number(text: str) -> bool:
    """Whether a text is one that Go reads as a number without a sign."""
    return text.isascii() and text.isdigit()


def version_of(text: str) -> int:
    """A resourceVersion as a number; 400 if it is none."""
    if not is_number(text):
        said = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: {said}")
    return int(text)


def check_not_too_large(core: Core, revision: int) -> None:
    """504 for a version that is not there yet. A real server waits for it a while, and then says the same."""
    if revision > core.store.revision:
        said = f"Timeout: Too large resource version: {revision}, current: {core.store.revision}"
        cause = Cause("ResourceVersionTooLarge", "Too large resource version", "")
        raise Said(504, "Timeout", said, {"retryAfterSeconds": 1}, [cause])


def _list_causes(query: Mapping[str, str]) -> list[Cause]:
    """What is wrong with the options of a list."""
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    found = []
    if match:
        if not version:
            found.append(denied(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if query.get("continue"):
            found.append(denied(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER):
            found.append(unsupported(_MATCH, match, (EXACT, NOT_OLDER, "")))
        if match == EXACT and version == "0":
            said = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            found.append(denied(_MATCH, said))
    if "sendInitialEvents" in query:
        found.append(denied("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _watch_causes(query: Mapping[str, str]) -> list[Cause]:
    """What is wrong with the options of a watch."""
    match, initial = query.get("resourceVersionMatch", ""), "sendInitialEvents" in query
    found = []
    if match:
        if not initial:
            said = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            found.append(denied(_MATCH, said))
        if match != NOT_OLDER:
            found.append(unsupported(_MATCH, match, (NOT_OLDER,)))
    elif initial:
        found.append(denied(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if query.get("continue"):
        # In these words, also when there is none.
        found.append(denied(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    return found


def check_watch(query: Mapping[str, str]) -> None:
    """422 for options of a watch that go against each other."""
    _check_options(_watch_causes(query))


def _check_options(causes: list[Cause]) -> None:
    """422 for options that go against each other."""
    if causes:
        texts = [str(cause) for cause in causes]
        said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        details = {"group": "meta.k8s.io", "kind": "ListOptions"}
        raise Said(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {said}', details, causes)
