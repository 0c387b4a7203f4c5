"""Of a pod that can't be read as a whole, what can be read counts, and else what was known before."""

import json

import pytest
from msgspec import structs

from muster.api.cluster import Container, Pod, PodSpec, PodStatus
from muster.api.model import Metadata
from muster.controllers.unread import pod_of_unread

BEFORE = Pod(
    metadata=Metadata(name="p", uid="u"),
    spec=PodSpec(scheduler_name="kai-scheduler", node_name="n1", containers=[Container()]),
    status=PodStatus(phase="Running"),
)
WAITING = structs.replace(BEFORE, spec=structs.replace(BEFORE.spec, node_name=""), status=PodStatus())


def read(document, before=None):
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return pod_of_unread(BEFORE.metadata, raw, before)


@pytest.mark.parametrize("raw", [b"", b"{", b"7", b"\\xff", b'{"spec": 7, "status": []}'])
def test_bytes_that_say_nothing_leave_everything_as_it_was(raw):
    assert read(raw, BEFORE) == BEFORE


@pytest.mark.parametrize("raw", [b"", b"{", b'{"spec": 7, "status": []}'])
def test_of_one_that_nobody_ever_read_nothing_is_known(raw):
    assert read(raw) == Pod(metadata=BEFORE.metadata)


def test_where_it_is_and_whose_it_is_can_be_read():
    found = read(
        {
            "spec": {"schedulerName": "x", "nodeName": "n2", "nodeSelector": 7},
            "status": {"phase": "Failed", "conditions": [{"type": "A", "status": "False"}, {"type": 7}, 7]},
        }
    )
    assert (found.spec.scheduler_name, found.spec.node_name, found.status.phase) == ("x", "n2", "Failed")
    assert [one.type for one in found.status.conditions] == ["A"]


def test_one_that_has_no_node_does_not_get_the_one_that_it_was_sent_to():
    assert read({"spec": {"nodeSelector": 7}}, WAITING).spec.node_name == ""


def test_a_scheduler_that_is_no_text_is_not_ours():
    assert read({"spec": {"schedulerName": 7}}, BEFORE).spec.scheduler_name == "?"


def test_one_that_goes_is_going_whatever_its_metadata_say():
    assert read({"metadata": {"labels": 7, "deletionTimestamp": "2026-01-01T00:00:00Z"}}).metadata.deletion_timestamp
