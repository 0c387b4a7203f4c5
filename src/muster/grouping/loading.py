"""The interfaces of users become something that can be asked, beside those of the catalog."""

from collections.abc import Iterable, Mapping, Sequence

from muster.api.interface import KindReference, ResourceInterface
from muster.api.validation.interface import check_interface
from muster.api.validation.violation import ERROR, Report
from muster.grouping.built_in import built_in_interfaces
from muster.grouping.compiler import compile_interface
from muster.grouping.language.limits import DEFAULT, Limits
from muster.grouping.model import Interface
from muster.grouping.registry import USER, Registry


def registry_of(
    found: Iterable[ResourceInterface],
    wrong: Mapping[str, str] | None = None,
    *,
    limits: Limits = DEFAULT,
    prefer: Sequence[str] = (USER,),
) -> Registry:
    """The catalog and these. `wrong` are those that were read with errors, by name, with the first of them."""
    users: list[Interface] = []
    invalid: dict[str, tuple[KindReference, str]] = {}
    for one in found:
        name, report = one.metadata.name, Report([])
        check_interface(one, report)
        compiled = compile_interface(one, report, limits=limits)
        errors = [f"{error.path} {error.message}".strip() for error in report.violations if error.severity == ERROR]
        why = (wrong or {}).get(name) or next(iter(errors), "")
        if compiled is None or why:
            invalid[name] = (one.spec.target_gvk, why or "it can't be compiled")
        else:
            users.append(compiled)
    return Registry(built_in_interfaces(limits), users, invalid=invalid, prefer=prefer)
