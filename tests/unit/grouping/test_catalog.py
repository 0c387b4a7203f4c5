"""The catalog is data in the format that an administrator writes, and passes the same checks."""

from pathlib import Path

import pytest

import muster.grouping
from muster.api.documents import read
from muster.api.validation import Context, validate

FILES = sorted((Path(muster.grouping.__file__).parent / "catalog").iterdir())


def test_there_is_a_catalog():
    assert FILES
    assert {path.suffix for path in FILES} == {".yaml"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_entry_is_valid_and_named_after_its_kind(path):
    """One ResourceInterface a file, without an error or a warning."""
    (document,) = read(path.read_bytes())
    judgement = validate(document.value, Context())
    assert judgement.violations == []
    assert document.doubts == []
    assert judgement.object.metadata.name == path.stem == judgement.object.spec.target_gvk.kind.lower()


def test_no_kind_stands_twice():
    targets = [validate(read(path.read_bytes())[0].value, Context()).object.spec.target_gvk for path in FILES]
    assert len({(target.group, target.kind) for target in targets}) == len(targets)
