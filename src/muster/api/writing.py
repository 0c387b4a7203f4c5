"""Values become YAML that means the same to every reader."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import yaml

from muster.api.scalars import needs_quotes

_TEXT_TAG = "tag:yaml.org,2002:str"
# Text that can stand as a block: printable lines without white space at either end.
_BLOCK = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?\n)+")


def write_yaml(values: Iterable[Any]) -> str:
    """The values as YAML documents."""
    return yaml.dump_all(
        values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, explicit_start=True, line_break="\n"
    )


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Never writes an alias, and quotes every text that some YAML version would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if _BLOCK.fullmatch(text) else None
    return dumper.represent_scalar(_TEXT_TAG, text, style="'" if needs_quotes(text) else style)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(StrEnum, lambda dumper, word: _represent_text(dumper, str(word)))
