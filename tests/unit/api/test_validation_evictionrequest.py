"""An EvictionRequest is judged field by field, and everything that is wrong is said at once."""

import pytest

from muster.api.validation import Context, validate
from muster.serve.webhook.answers import review

POD = {"namespace": "default", "name": "a-0", "uid": "u"}


def request(victims=(POD,), **beneficiary):
    winner = {"namespace": "default", "name": "train", "uid": "v", **beneficiary}
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "EvictionRequest",
        "metadata": {"name": "r", "namespace": "muster-system"},
        "spec": {"beneficiary": winner, "victims": list(victims)},
    }


def violations(document, old=None):
    return {(one.severity, one.path) for one in validate(document, Context(), old).violations}


def test_a_valid_one():
    assert violations(request()) == set()
    assert violations(request(), request()) == set()


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param(request([]), "spec.victims", id="no victims"),
        pytest.param(request([{**POD, "name": f"a-{i}"} for i in range(65)]), "spec.victims", id="too many"),
        pytest.param(request([POD, {**POD, "uid": "w"}]), "spec.victims[1]", id="a pod twice"),
        pytest.param(request([{**POD, "name": "A_0"}]), "spec.victims[0].name", id="no name of a pod"),
        pytest.param(request([{**POD, "namespace": "a.b"}]), "spec.victims[0].namespace", id="no namespace"),
        pytest.param(request([{"namespace": "default", "name": "a"}]), "spec.victims[0].uid", id="no uid"),
        pytest.param(request(name="../x"), "spec.beneficiary.name", id="no name of a gang"),
        pytest.param(request(uid=""), "spec.beneficiary.uid", id="no uid of the gang"),
        pytest.param({**request(), "spec": {}}, "spec.beneficiary", id="no beneficiary"),
    ],
)
def test_what_is_wrong(document, path):
    assert ("error", path) in violations(document)
    assert all(one.hint for one in validate(document, Context()).violations)


def test_everything_at_once():
    found = violations(request([{**POD, "name": "A_0"}, POD, POD], name="_"))
    assert found == {
        ("error", "spec.beneficiary.name"),
        ("error", "spec.victims[0].name"),
        ("error", "spec.victims[2]"),
    }


def test_it_stays_as_it_was_created():
    """Also for the webhook, which says so in a sentence."""
    changed = request([{**POD, "uid": "w"}])
    assert violations(changed, request()) == {("error", "spec")}
    asked = {"uid": "1", "operation": "UPDATE", "object": changed, "oldObject": request()}
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    answer = review(document, Context())["response"]
    assert answer["allowed"] is False
    assert "stays as it was created" in answer["status"]["message"]
