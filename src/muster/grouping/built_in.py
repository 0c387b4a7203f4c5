"""The catalog: every workload kind that is known without anybody's doing, read from the data beside this module."""

import functools
import importlib.resources

from muster.api.documents import read
from muster.api.validation import Context, validate
from muster.api.validation.violation import Report
from muster.grouping.compiler import compile_interface
from muster.grouping.language.limits import DEFAULT, Limits
from muster.grouping.model import Interface

_ENDING = ".yaml"


@functools.cache
def built_in_interfaces(limits: Limits = DEFAULT) -> tuple[Interface, ...]:
    """All interfaces of the catalog, by name. The catalog is part of the program: what is wrong with it is a defect."""
    folder = importlib.resources.files("muster.grouping") / "catalog"
    texts = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(_ENDING)}
    return tuple(_interface(name, text, limits) for name, text in sorted(texts.items()))


def _interface(name: str, text: bytes, limits: Limits) -> Interface:
    (document,) = read(text)
    judgement = validate(document.value, Context())
    assert judgement.valid, f"{name}: {judgement.violations}"
    report = Report([])
    interface = compile_interface(judgement.object, report, built_in=True, limits=limits)
    assert interface is not None, f"{name}: {report.violations}"
    return interface
