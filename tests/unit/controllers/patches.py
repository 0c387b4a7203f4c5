"""What an API server makes of patches."""

from typing import Any

Document = dict[str, Any]


def merged(found: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(patch, dict) or not isinstance(found, dict):
        return patch
    both = {**found, **{key: merged(found.get(key, {}), value) for key, value in patch.items()}}
    return {key: value for key, value in both.items() if value is not None}


def by_type(found: list[Document], patch: list[Document]) -> list[Document]:
    """A strategic merge patch of conditions."""
    both = {one["type"]: one for one in found}
    for one in patch:
        both[one["type"]] = merged(both.get(one["type"], {}), one)
    return [one for one in both.values() if "$patch" not in one]
