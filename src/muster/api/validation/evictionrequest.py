"""The rules of an EvictionRequest, as far as it can be judged alone: the scheduler looks at the pods and the gang."""

import re

from muster.api.documents import shown
from muster.api.evictionrequest import EvictionRequest
from muster.api.validation.violation import Report

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMES = "use a-z, 0-9 and '-', starting and ending with a letter or digit"


def check_request(request: EvictionRequest, old: EvictionRequest | None, report: Report) -> None:
    """Names that objects can have, each pod once, and once created immutable."""
    winner = request.spec.beneficiary
    _check_name("spec.beneficiary.namespace", winner.namespace, report, label=True)
    _check_name("spec.beneficiary.name", winner.name, report)
    first: dict[tuple[str, str], int] = {}
    for index, victim in enumerate(request.spec.victims):
        path = f"spec.victims[{index}]"
        _check_name(f"{path}.namespace", victim.namespace, report, label=True)
        _check_name(f"{path}.name", victim.name, report)
        known = first.setdefault((victim.namespace, victim.name), index)
        if known != index and victim.name:
            message = f"the pod {shown(f'{victim.namespace}/{victim.name}')} stands already at spec.victims[{known}]"
            report.error(path, message, "name each pod once")
    if old is not None and old.spec != request.spec:
        report.error("spec", "an EvictionRequest stays as it was created", "create a new one")


def _check_name(path: str, name: str, report: Report, *, label: bool = False) -> None:
    if name and (not _SUBDOMAIN.fullmatch(name) or (label and "." in name)):
        report.error(path, f"must be a DNS {'label' if label else 'name'}, not {shown(name)}", _NAMES)
