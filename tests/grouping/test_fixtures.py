"""The fixtures of all kinds: each comes out as expected, and holds what must hold whatever is expected."""

import functools
from pathlib import Path

import pytest

from muster.api.validation import ERROR, Context, validate
from muster.cli import fixtures
from muster.cli.grouping import groupable
from muster.cli.judging import check_all
from muster.config import Config
from muster.grouping.derive import Blueprint
from muster.grouping.matching import claims
from muster.grouping.model import UNMATCHED_ERROR, UNMATCHED_IGNORE
from muster.grouping.owners import labels_of
from muster.grouping.podgroup import name_of

HERE = Path(__file__).parent
FOLDERS = list(fixtures._folders(HERE))
CONFIG = Config()

every_case = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(HERE)))


@functools.cache
def steps(folder):
    """The objects at each step of a case, and what comes out then."""
    objects, found_at = {}, []
    for step in [folder, *sorted(below for below in folder.iterdir() if below.name.startswith(fixtures.THEN))]:
        fixtures._replace(objects, fixtures._sources(step, CONFIG))
        sources = fixtures._copied(objects.values())
        found_at.append((sources, *grouped(sources)))
        fixtures._carry(objects, found_at[-1][2])
    return found_at


def grouped(sources):
    ready = groupable(sources, check_all(sources, CONFIG, strict=True), CONFIG)
    return ready, ready.group(preview=not ready.pods)


def blueprints(ready):
    """What was derived, by the names of the PodGroups."""
    found = {}
    for kept in ready.grouper._kept.values():
        for one in kept.blueprints.values():
            if isinstance(one, Blueprint):
                found[name_of(one, kept.reading.interface)] = one
    return found


def test_there_are_fixtures():
    """Of every kind of the catalog that groups at all, and of users' own."""
    assert len(FOLDERS) > 100
    assert {folder.relative_to(HERE).parts[0] for folder in FOLDERS} == {"catalog", "users"}


@every_case
def test_a_case_comes_out_as_expected(folder):
    """Also whichever pod comes first, and again when it is repeated."""
    case = fixtures._run(folder, folder.name, [], CONFIG, True)
    assert case.differences == []


@every_case
def test_one_leaf_claims_each_pod(folder):
    """Not just the first of several. A pod that no leaf claims is where unmatchedPods says."""
    for _, ready, found in steps(folder):
        derived = blueprints(ready)
        pods = {(one["metadata"].get("namespace", "default"), one["metadata"]["name"]): one for one in ready.pods}
        for place in found.pods:
            gang = derived.get(place.pod_group)
            if gang is None or not gang.root.children:
                continue
            labels = labels_of(pods[place.namespace, place.name])
            claiming = [leaf.name for leaf in gang.leaves.nodes if claims(leaf, labels)]
            if gang.template.unmatched in (UNMATCHED_ERROR, UNMATCHED_IGNORE) or claiming:
                assert claiming == [place.sub_group], place


@every_case
def test_no_leaf_asks_for_more_pods_than_its_workload_creates(folder):
    """And where it is known how many that are, there are never more, unless the workload has just been made smaller."""
    for number, (_, ready, found) in enumerate(steps(folder)):
        for name, gang in blueprints(ready).items():
            for leaf in gang.leaves.nodes:
                assert leaf.minimum is not None
                if leaf.replicas is not None:
                    assert leaf.minimum <= leaf.replicas, (name, leaf.name)
                    here = [one for one in found.pods if (one.pod_group, one.sub_group) == (name, leaf.name)]
                    assert len(here) <= leaf.replicas or number, (name, leaf.name)


@every_case
def test_the_order_of_documents_changes_nothing(folder):
    """Neither that of owners and pods, nor that of interfaces; and every PodGroup is valid."""
    for sources, _, found in steps(folder):
        for one in found.groups:
            violations = validate(one.document, Context()).violations
            assert [violation for violation in violations if violation.severity == ERROR] == []
        turned = [*sources[::2], *sources[1::2]][::-1]
        assert grouped(turned)[1] == found
