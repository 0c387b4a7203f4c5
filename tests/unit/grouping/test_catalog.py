"""The catalog is data in the format that an administrator writes, and passes the same checks."""

from collections import Counter
from pathlib import Path

import pytest

import muster.grouping
from muster.api.documents import read
from muster.api.validation import Context, validate
from muster.grouping.compiler import check

FILES = sorted((Path(muster.grouping.__file__).parent / "catalog").iterdir())
CONTEXT = Context(check_interface=check)

# What SPEC.md and the issue promise at least.
PROMISED = {
    *("Pod", "Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet", "JobSet", "TrainJob", "LeaderWorkerSet"),
    *("DisaggregatedSet", "RayCluster", "RayJob", "RayService", "RayCronJob", "SparkApplication", "Workflow", "AmlJob"),
    *("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob", "MPIJob", "Notebook", "PodCliqueSet", "Service"),
    *("DynamoGraphDeployment", "InferenceService", "PipelineRun", "TaskRun", "SeldonDeployment"),
    "VirtualMachineInstance",
}


def judged(path):
    (document,) = read(path.read_bytes())
    return document, validate(document.value, CONTEXT)


def targets():
    return [judged(path)[1].object.spec.target_gvk for path in FILES]


def test_there_is_a_catalog():
    assert FILES
    assert {path.suffix for path in FILES} == {".yaml"}
    assert {target.kind for target in targets()} >= PROMISED


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_entry_is_valid_and_named_after_its_kind(path):
    """One ResourceInterface a file, without an error or a warning, expressions included. One for a single version of
    its kind may carry that in its name.
    """
    document, judgement = judged(path)
    assert judgement.violations == []
    assert document.doubts == []
    target = judgement.object.spec.target_gvk
    kind = target.kind.lower()
    assert judgement.object.metadata.name == path.stem
    assert path.stem in (kind, f"{kind}-{target.version}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_entry_says_why_it_is_so(path):
    assert path.read_text().startswith("# ")


def test_no_kind_stands_twice():
    """Of one kind there are several only for single versions."""
    found = targets()
    assert len({(target.group, target.version, target.kind) for target in found}) == len(found)
    kinds = Counter((target.group, target.kind) for target in found)
    several = [target for target in found if kinds[target.group, target.kind] > 1]
    assert all(target.version != "*" for target in several)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_entry_has_fixtures(path):
    """Every kind of the catalog has a case with objects as they come from its operator."""
    cases = Path(__file__).parents[2] / "grouping" / "catalog" / path.stem
    assert list(cases.glob("*/expected.yaml"))
