"""What selectors select; which texts are selectors at all was asked of a real server (test_recorded.py)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.refusals import Refused
from muster.embedded.selectors import fields, labels, selector


def labelled(**found: str) -> dict[str, Any]:
    return {"metadata": {"name": "x", "labels": found}}


LABELS = [
    ("", {}, True),
    ("a", {"a": ""}, True),
    ("a", {"b": ""}, False),
    ("!a", {"b": ""}, True),
    ("!a", {"a": ""}, False),
    ("a=1", {"a": "1"}, True),
    ("a==1", {"a": "2"}, False),
    ("a!=1", {"a": "2"}, True),
    ("a!=1", {}, True),
    ("a!=1", {"a": "1"}, False),
    ("a in (1, 2)", {"a": "2"}, True),
    ("a in (1,2)", {}, False),
    ("a notin (1,2)", {"a": "3"}, True),
    ("a notin (1,2)", {}, True),
    ("a notin (1,2)", {"a": "1"}, False),
    ("a in (1,)", {"a": ""}, True),
    ("a=", {"a": ""}, True),
    ("a=,b", {"a": "", "b": ""}, True),
    ("a>5", {"a": "6"}, True),
    ("a>5", {"a": "5"}, False),
    ("a<5", {"a": "x"}, False),
    ("a<5", {}, False),
    ("a,b!=x,c in (y)", {"a": "1", "c": "y"}, True),
    ("a,b!=x,c in (y)", {"a": "1", "b": "x", "c": "y"}, False),
    ("in in (notin)", {"in": "notin"}, True),
    ("example.com/a = b", {"example.com/a": "b"}, True),
]


@pytest.mark.parametrize(("text", "found", "expected"), LABELS)
def test_a_label_selector(text: str, found: dict[str, str], expected: bool) -> None:
    assert labels(text)({"metadata": {"labels": found}}) is expected


def test_an_object_without_labels_has_none() -> None:
    assert labels("!a")({"metadata": {}})
    assert not labels("a")({})


POD = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"nodeName": "n", "schedulerName": "muster"},
    "status": {"phase": "Running"},
}
FIELDS: list[tuple[str, str, Any, bool]] = [
    ("pods", "spec.nodeName=n", POD, True),
    ("pods", "spec.nodeName==n,status.phase=Running", POD, True),
    ("pods", "spec.nodeName=", POD, False),
    ("pods", "spec.nodeName=", {"spec": {}}, True),
    ("pods", "spec.nodeName!=", POD, True),
    ("pods", "spec.host=n", POD, True),
    ("pods", "status.phase!=Running,metadata.name=p", POD, False),
    ("pods", "metadata.namespace=default", POD, True),
    ("pods", "spec.hostNetwork=false", POD, True),
    ("nodes", "spec.unschedulable=false", {"spec": {}}, True),
    ("nodes", "spec.unschedulable=true", {"spec": {"unschedulable": True}}, True),
    ("namespaces", "status.phase=Active", {"status": {"phase": "Active"}}, True),
    ("events", "involvedObject.name=p,reason=R", {"involvedObject": {"name": "p"}, "reason": "R"}, True),
    ("events", "source=kubelet", {"source": {"component": "kubelet"}}, True),
    ("events", "source=muster", {"reportingComponent": "muster"}, True),
    ("events.events.k8s.io", "regarding.name=p", {"involvedObject": {"name": "p"}}, True),
    ("events.events.k8s.io", "regarding.name=p", {"regarding": {"name": "p"}}, True),
    ("jobs.batch", "status.successful=2", {"status": {"succeeded": 2}}, True),
    ("jobs.batch", "status.successful=0", {}, True),
    ("configmaps", "metadata.name=a\\,b", {"metadata": {"name": "a,b"}}, True),
]


@pytest.mark.parametrize(("resource", "text", "document", "expected"), FIELDS)
def test_a_field_selector(resource: str, text: str, document: Any, expected: bool) -> None:
    assert fields(text, resource)(document) is expected


def test_a_custom_resource_may_name_more_fields() -> None:
    with pytest.raises(Refused):
        fields("spec.color=red", "widgets.example.dev")
    assert fields("spec.color=red", "widgets.example.dev", ("spec.color",))({"spec": {"color": "red"}})
    assert fields("spec.on=true", "widgets.example.dev", ("spec.on",))({"spec": {"on": True}})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
    ],
)
def test_a_selector_as_a_document(spec: Any, expected: bool) -> None:
    assert selector(spec)(labelled(a="1")) is expected


WORDS = st.sampled_from(["a", "b", "1"])


@given(st.dictionaries(WORDS, WORDS), st.dictionaries(WORDS, WORDS))
def test_a_selector_of_equal_labels_selects_who_has_them_all(wanted: dict[str, str], found: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in wanted.items())
    expected = wanted.items() <= found.items()
    assert labels(text)(labelled(**found)) is expected
    assert selector({"matchLabels": wanted})(labelled(**found)) is expected


@given(st.text("ab=!,()<> in", max_size=12))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    """Nothing else is raised, whatever is sent; `in` and `notin` are opposites, as are `=` and `!=`."""
    for ask in (lambda: labels(text), lambda: fields(text, "pods")):
        try:
            ask()({})
        except Refused as refused:
            said = refused.status
        else:
            said = 400
        assert said == 400
