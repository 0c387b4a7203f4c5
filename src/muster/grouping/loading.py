"""The interfaces of users become something that can be asked, beside those of the catalog."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from muster.api.interface import KindReference, ResourceInterface
from muster.api.validation.interface import check_interface
from muster.api.validation.violation import ERROR, Report
from muster.grouping.built_in import built_in_interfaces
from muster.grouping.compiler import compile_interface
from muster.grouping.language.limits import DEFAULT, Limits
from muster.grouping.model import Interface
from muster.grouping.registry import USER, Registry


class Loaded(NamedTuple):
    """One interface of a user: what it became, if anything, and everything that is wrong or odd about it."""

    name: str
    target: KindReference
    interface: Interface | None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def load(one: ResourceInterface, wrong: Sequence[str] = (), *, limits: Limits = DEFAULT) -> Loaded:
    """An interface, checked and compiled. `wrong` is what it was read with."""
    report = Report([])
    check_interface(one, report)
    compiled = compile_interface(one, report, limits=limits)
    told = [(found.severity == ERROR, f"{found.path} {found.message}".strip()) for found in report.violations]
    errors = (*wrong, *(text for is_error, text in told if is_error))
    if compiled is None and not errors:
        errors = ("it can't be compiled",)
    warnings = tuple(text for is_error, text in told if not is_error)
    return Loaded(one.metadata.name, one.spec.target_gvk, None if errors else compiled, errors, warnings)


def registry_with(loaded: Iterable[Loaded], *, limits: Limits = DEFAULT, prefer: Sequence[str] = (USER,)) -> Registry:
    """The catalog and these. One that has errors is not asked, and of them the first is told."""
    users: list[Interface] = []
    invalid: dict[str, tuple[KindReference, str]] = {}
    for one in loaded:
        if one.interface is None:
            invalid[one.name] = (one.target, one.errors[0])
        else:
            users.append(one.interface)
    return Registry(built_in_interfaces(limits), users, invalid=invalid, prefer=prefer)


def registry_of(
    found: Iterable[ResourceInterface],
    wrong: Mapping[str, str] | None = None,
    *,
    limits: Limits = DEFAULT,
    prefer: Sequence[str] = (USER,),
) -> Registry:
    """The catalog and these. `wrong` are those that were read with errors, by name, with the first of them."""
    known = {name: (why,) for name, why in (wrong or {}).items() if why}
    loaded = (load(one, known.get(one.metadata.name, ()), limits=limits) for one in found)
    return registry_with(loaded, limits=limits, prefer=prefer)
