"""Interfaces of users become something that can be asked; what is wrong with one costs no other."""

import msgspec

from muster.api.interface import ResourceInterface
from muster.grouping.loading import registry_of
from workloads import API, KIND, written


def loaded(*documents, **more):
    return registry_of([msgspec.convert(one, ResourceInterface) for one in documents], **more)


def test_the_catalog_is_there_and_users_beside_it():
    found = loaded(written({"minMember": 2}))
    assert [one.name for one in found.candidates(API, KIND).interfaces] == ["works"]
    assert [one.built_in for one in found.candidates("batch/v1", "Job").interfaces] == [True]


def test_one_that_is_wrong_is_named_with_its_first_error():
    """Its structure, its expressions, and what was known before, in the order in which they come."""
    broken = {
        "structure": written({"minMember": 2, "minSubGroup": 1}, name="structure"),
        "expressions": written({"minMemberPath": ".spec["}, name="expressions"),
        "known": written({"minMember": 2}, name="known"),
    }
    for name, document in broken.items():
        candidates = loaded(document, wrong={"known": "spec.x is no field"}).candidates(API, KIND)
        assert candidates.interfaces == ()
        assert name in candidates.broken
    assert "spec.x is no field" in candidates.broken


def test_one_that_is_wrong_costs_no_other():
    found = loaded(written({"minMemberPath": ".spec["}, name="bad"), written({"minMember": 2}, name="good"))
    candidates = found.candidates(API, KIND)
    assert [one.name for one in candidates.interfaces] == ["good"]
    assert not candidates.broken
