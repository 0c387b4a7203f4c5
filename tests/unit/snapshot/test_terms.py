"""Terms of required anti-affinity as Kubernetes reads them (pod-rules §1.1)."""

import pytest

from muster.api.kinds import CORE_KINDS, read_object
from muster.snapshot.terms import Requirement, terms_of

SOME = {"topologyKey": "zone"}


def read(term, **labels):
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**SOME, **term}]}}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}, "spec": {"affinity": affinity}}
    return terms_of(read_object(document, CORE_KINDS[0])[0], "own")


def requirement(key, operator, *values):
    return Requirement(key, operator, frozenset(values))


@pytest.mark.parametrize(
    ("term", "labels", "selector"),
    [
        pytest.param({"matchLabelKeys": ["a"]}, {"a": "1"}, [requirement("a", "In", "1")], id="as it is created"),
        pytest.param({"mismatchLabelKeys": ["a"]}, {"a": "1"}, [requirement("a", "NotIn", "1")], id="not the same"),
        pytest.param({"matchLabelKeys": ["a"]}, {}, [], id="a key that the pod lacks is passed over"),
        pytest.param(
            {
                "matchLabelKeys": ["a"],
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["0"]}]},
            },
            {"a": "1"},
            [requirement("a", "In", "0")],
            id="what the API server merged stays, whatever the label is by now",
        ),
        pytest.param(
            {
                "mismatchLabelKeys": ["a"],
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["0"]}]},
            },
            {"a": "1"},
            [requirement("a", "NotIn", "0")],
            id="the same of what must differ",
        ),
    ],
)
def test_label_keys_are_merged_once(term, labels, selector):
    (found,) = read({"labelSelector": {}, **term}, **labels)
    assert list(found.selector) == selector


@pytest.mark.parametrize(
    ("term", "named", "chosen"),
    [
        pytest.param({}, {"own"}, None, id="neither: its own"),
        pytest.param({"namespaces": ["x"]}, {"x"}, None, id="named"),
        pytest.param({"namespaceSelector": {}}, set(), (), id="every one"),
        pytest.param({"namespaceSelector": None}, {"own"}, None, id="null is absent"),
        pytest.param({"namespaces": ["x"], "namespaceSelector": {}}, {"x"}, (), id="both"),
    ],
)
def test_namespaces(term, named, chosen):
    (found,) = read({"labelSelector": {}, **term})
    assert (found.namespaces, found.namespace_selector) == (named, chosen)


def test_a_term_without_a_selector_means_no_pod():
    assert read({}) == () == read({"labelSelector": None, "namespaceSelector": {}})
