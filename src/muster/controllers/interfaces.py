"""The ResourceInterfaces of a cluster: they are watched and compiled, and each is told whether it is accepted.

One that can't be read or compiled is told so, and costs no other anything. A status is written when it would change,
and not before.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

import msgspec

from muster.api.interface import ResourceInterface
from muster.api.kinds import RESOURCE_INTERFACE, read_object
from muster.api.model import Condition
from muster.errors import ApiError, NotFound
from muster.grouping.language.limits import Limits
from muster.grouping.loading import Loaded, load, registry_with
from muster.grouping.owners import ANY_VERSION
from muster.grouping.registry import Registry
from muster.kube.client import Client
from muster.kube.resources import Unread
from muster.kube.watch import Added, Deleted, Listed, Modified, watch
from muster.telemetry import SILENT, Log

ACCEPTED = "Accepted"
# The reasons of the condition.
COMPILED, INVALID, CONFLICTED = "Compiled", "Invalid", "Conflicted"
# A message, and how many of the mistakes are told in it.
_MOST_CHARACTERS, _MOST_TOLD = 1_024, 5
# What could not be written is tried again after so long; so often one that does not lead looks whether it does.
_AGAIN_S, _LEADING_S = 30.0, 1.0


class _Known(NamedTuple):
    """One ResourceInterface as it was seen last, and what it became."""

    found: ResourceInterface
    loaded: Loaded


class Interfaces:
    """Watches ResourceInterfaces until it is cancelled. `changed` is called when the registry is another one."""

    def __init__(
        self,
        client: Client,
        changed: Callable[[], None],
        *,
        limits: Limits,
        prefer: Sequence[str],
        may_write: Callable[[], bool] = lambda: True,
        log: Log = SILENT,
    ) -> None:
        self._client, self._changed, self._may_write, self._log = client, changed, may_write, log
        self._limits, self._prefer = limits, tuple(prefer)
        self._known: dict[str, _Known] = {}
        self._untold: set[str] = set()
        self._awake = asyncio.Event()
        self.is_listed = False
        self.registry: Registry = self._registry()

    def found(self) -> list[ResourceInterface]:
        """Those that were seen last."""
        return [known.found for known in self._known.values()]

    async def run(self) -> None:
        """Everything, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            tasks.create_task(self._write())

    async def _watch(self) -> None:
        async with aclosing(watch(self._client, RESOURCE_INTERFACE)) as changes:
            async for change in changes:
                self._take(change)

    def _take(self, change: Any) -> None:
        before = {name: known.loaded for name, known in self._known.items()}
        match change:
            case Listed(items=items, unread=unread):
                known = [*map(self._read, items), *map(self._read_anyway, unread)]
                self._known = {one.loaded.name: one for one in known if one is not None}
            case Added(object=found) | Modified(object=found):
                self._keep(self._read(found))
            case Unread() if change.change != "DELETED":
                self._keep(self._read_anyway(change))
            case Deleted(object=found) | Unread(metadata=found):
                # Of one that was not read, only the metadata is there.
                self._known.pop(getattr(found, "metadata", found).name, None)
            case _:
                return
        first, self.is_listed = not self.is_listed, True
        if first or before != {name: known.loaded for name, known in self._known.items()}:
            self.registry = self._registry()
            # Whether one is asked depends on the others too.
            self._untold.update(self._known)
            self._changed()
        self._untold.update(self._known if isinstance(change, Listed) else ())
        self._awake.set()

    def _keep(self, known: _Known | None) -> None:
        if known is not None:
            self._known[known.loaded.name] = known
            self._untold.add(known.loaded.name)

    def _read(self, found: ResourceInterface, wrong: Sequence[str] = ()) -> _Known:
        """One that was read. What did not change is not compiled again."""
        before = self._known.get(found.metadata.name)
        if before is not None and not wrong and _is_same(before.found, found):
            return before._replace(found=found)
        return _Known(found, load(found, wrong, limits=self._limits))

    def _read_anyway(self, unread: Unread) -> _Known | None:
        """One that can't be read as it is: what can be of it says at least for which kind it was meant."""
        if not unread.metadata.name:
            self._log.warning("a ResourceInterface can't be read", why=unread.why.message)
            return None
        found = ResourceInterface(metadata=unread.metadata, spec=_NOTHING)
        wrong = [f"{unread.why.path} {unread.why.message}".strip()]
        try:
            document = msgspec.json.decode(unread.raw)
            read, problems = read_object(document, RESOURCE_INTERFACE, strict=False)
            found, wrong = read, [f"{one.path} {one.message}".strip() for one in problems] or wrong
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, AttributeError):
            # Not even JSON, or not an object: there is nothing more to know about it.
            pass
        return _Known(found, Loaded(unread.metadata.name, found.spec.target_gvk, None, tuple(wrong)))

    def _registry(self) -> Registry:
        loaded = [known.loaded for known in self._known.values()]
        return registry_with(loaded, limits=self._limits, prefer=self._prefer)

    # Telling

    async def _write(self) -> None:
        """Conditions, one after the other; what fails is tried again later, and holds up nobody else."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout((_AGAIN_S if self._may_write() else _LEADING_S) if self._untold else None):
                    await self._awake.wait()
            self._awake.clear()
            names, self._untold = self._untold, set()
            for name in sorted(names):
                if not self._may_write() or not await self._tell(name):
                    self._untold.add(name)

    async def _tell(self, name: str) -> bool:
        """One condition, if it is another one than what stands there. False: it could not be written."""
        known = self._known.get(name)
        condition = self._condition(known) if known is not None else None
        if known is None or condition is None:
            return True
        head = {"apiVersion": RESOURCE_INTERFACE.api_version, "kind": RESOURCE_INTERFACE.name}
        # Of the list of conditions only this one is ours.
        metadata = {"name": name, "uid": known.found.metadata.uid}
        body = {**head, "metadata": metadata, "status": {"conditions": [condition]}}
        try:
            await self._client.apply(RESOURCE_INTERFACE, "", name, body, subresource="status", force=True)
        except NotFound:
            return True
        except ApiError as error:
            self._log.warning(
                "a ResourceInterface can't be told whether it is accepted", name=name, error=error.message
            )
            return False
        return True

    def _condition(self, known: _Known) -> dict[str, Any] | None:
        """The condition as it should be; None when it is."""
        metadata = known.found.metadata
        status, reason, message = self._verdict(known.loaded)
        there = next((one for one in known.found.status.conditions if one.type == ACCEPTED), None)
        wanted = Condition(
            type=ACCEPTED,
            status=status,
            reason=reason,
            message=message,
            observed_generation=metadata.generation or None,
            last_transition_time=there.last_transition_time if there is not None and there.status == status else None,
        )
        if wanted == there:
            return None
        if wanted.last_transition_time is None:
            now = self._client.clock.wall().replace(microsecond=0)
            wanted = msgspec.structs.replace(wanted, last_transition_time=now)
        written: dict[str, Any] = msgspec.to_builtins(wanted)
        return written

    def _verdict(self, loaded: Loaded) -> tuple[str, str, str]:
        """Status, reason and sentence of the condition."""
        if loaded.errors:
            return "False", INVALID, _sentence("not used", loaded.errors)
        target = loaded.target
        version = f"{target.group}/{target.version}" if target.group else target.version
        candidates = self.registry.candidates(version, target.kind)
        asked = next((one.name for one in candidates.interfaces if not one.built_in), "")
        if asked and asked != loaded.name:
            about = [text for text in candidates.warnings if loaded.name in text and asked in text]
            return "False", CONFLICTED, _sentence("not used", about or [f"{asked} is for the same kind"])
        kind = f"{target.kind}.{target.group}" if target.group else target.kind
        versions = "" if target.version == ANY_VERSION else f" ({target.version})"
        return "True", COMPILED, _sentence(f"used for {kind}{versions}", loaded.warnings)


def _is_same(before: ResourceInterface, found: ResourceInterface) -> bool:
    """Whether it says what it said, its status aside."""
    one, other = before.metadata, found.metadata
    return (one.uid, one.creation_timestamp) == (other.uid, other.creation_timestamp) and before.spec == found.spec


def _sentence(verdict: str, about: Sequence[str]) -> str:
    told = "; ".join(about[:_MOST_TOLD]) + (f"; and {len(about) - _MOST_TOLD} more" if len(about) > _MOST_TOLD else "")
    text = f"{verdict}: {told}" if told else verdict
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


_NOTHING = read_object({}, RESOURCE_INTERFACE, strict=False)[0].spec
