"""From a document to a struct: the fast way for pods and nodes gives what the slow way gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.kinds import CORE_KINDS, read_core, read_object

POD = CORE_KINDS[0]
_LIKED = "preferredDuringSchedulingIgnoredDuringExecution"

AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", 2, 0.5, "4Gi"]))
LABELS = st.dictionaries(st.sampled_from(["a", "b/c"]), st.text(max_size=5))
MAYBE_NULL = st.none() | LABELS
PODS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Pod"),
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["p", "q"])},
            optional={"labels": MAYBE_NULL, "annotations": MAYBE_NULL, "managedFields": st.just([{"x": 1}])},
        ),
        "spec": st.fixed_dictionaries(
            {
                "containers": st.lists(
                    st.fixed_dictionaries({"resources": st.fixed_dictionaries({"requests": AMOUNTS})})
                )
            },
            optional={"nodeSelector": MAYBE_NULL, "nodeName": st.none() | st.just("n"), "unknown": st.just(True)},
        ),
    }
)


@given(PODS)
def test_fast_and_slow_agree(document):
    """Whatever can be read both ways is read the same; what only the slow way takes, it takes."""
    assert read_core(document, POD) == read_object(document, POD)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param({"spec": {"containers": "none"}}, "spec.containers", id="a wrong type"),
        pytest.param(
            {"spec": {"affinity": {"nodeAffinity": {_LIKED: [{"weight": 10**30, "preference": {}}]}}}},
            f"spec.affinity.nodeAffinity.{_LIKED}[0].weight",
            id="a weight that could not be added up",
        ),
        pytest.param({"spec": {"overhead": {"cpu": 10**30}}}, "spec.overhead.cpu", id="an amount beyond 64 bits"),
        pytest.param({"spec": {"overhead": {"cpu": float("inf")}}}, "spec.overhead.cpu", id="an endless amount"),
    ],
)
def test_what_is_wrong_has_its_path(document, path):
    """One of the two ways refuses it, and says where."""
    _, problems = read_core({"metadata": {"name": "p"}, **document}, POD)
    assert [problem.path for problem in problems] == [path]
