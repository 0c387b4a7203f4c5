"""Every expression that the designs and the notes on workloads hold: accepted, or refused on purpose."""

from typing import Any

import pytest

from muster.errors import BadExpression
from muster.grouping.language import expression
from muster.grouping.language.limits import Meter

ACCEPTED = [
    # Generic pod grouping, as designed.
    '.metadata.labels["ray.io/cluster"]',
    ".spec.headGroupSpec.topologyRequirements.Required",
    ".spec.headGroupSpec.topologyRequirements.Preferred",
    ".spec.workerGroupSpecs[].topologyRequirements.Required",
    ".spec.workerGroupSpecs[].topologyRequirements.Preferred",
    ".spec.workerGroupSpecs[].minReplicas",
    ".metadata.annotations.headGroupTopology.Required",
    "$wg.groupName",
    "$wg.minReplicas",
    "$wg.replicas",
    # Kinds in the notes on workloads.
    '.metadata.annotations["kai.scheduler/min-member"]',
    '.metadata.annotations["kai.scheduler/batch-min-member"] | if . == null then null else tonumber end',
    "1",
    ".spec.job.options.envs.AZUREML_NODE_COUNT",
    ".spec.tfReplicaSpecs",
    ".spec.runPolicy.schedulingPolicy.minAvailable",
    "[$specs[].replicas] | add",
    'has("Worker")',
    "$specs | to_entries[]",
    "$r.key | ascii_downcase",
    "$r.key|ascii_downcase",
    "$r.value.replicas",
    'if .spec.launcherCreationPolicy == "WaitForWorkersReady" and '
    "([$launchers[]|select(.metadata.deletionTimestamp==null)]|length)==0 "
    "then $total-.spec.mpiReplicaSpecs.Launcher.replicas else $total end",
    "[$min-($m//0),0]|max",
    "range($n)",
    '"worker-\\($i)"',
    "if $i*$s >= $wmin then 0 elif $i==$n-1 and $w%$s!=0 then $w%$s else $s end",
    "$rj.name",
    "$rj.replicas // 1",
    '"\\($rj.name)-replica-\\($i)"',
    'if $a != null then [$a|tonumber,$n]|min elif .spec.startupPolicy.startupPolicyOrder == "InOrder" or '
    'any(.spec.replicatedJobs[]; has("dependsOn")) then 1 else $n end',
    "([$wg.minReplicas,$wg.replicas]|map(select(.!=null and .>0))|first // 0) * ($wg.numOfHosts // 1)",
    "$wg.template.metadata.annotations",
    ".status.rayClusterName",
    ".status.activeServiceStatus.rayClusterName",
    ".status.pendingServiceStatus.rayClusterName",
    '"pg-\\(.metadata.name)-\\(.metadata.uid)-group-\\($key)"',
    "$i|tostring",
    "$g.minReplicas",
    "$pg.spec.priorityClassName",
    ".spec.executor.instances",
    '$rev.metadata.annotations["autoscaling.knative.dev/min-scale"] // "1" | tonumber',
    # The worked sketches.
    ".spec.replicatedJobs | length",
    "if $override != null then [($override|tonumber), $n] | min else null end",
    'if .spec.startupPolicy.startupPolicyOrder == "InOrder" or any(.spec.replicatedJobs[]; has("dependsOn")) '
    "then 1 else null end",
    "$n",
    "$i | tostring",
    "$rj.template.spec.parallelism // 1",
    ".spec.leaderWorkerTemplate.size // 1",
    '.metadata.labels["leaderworkerset.sigs.k8s.io/group-index"]',
    'if .spec.startupPolicy == "LeaderReady" then 1 else null end',
    "$size > 1",
    "$size - 1",
    '.metadata.labels["grove.io/podgang"]',
    '$pg.metadata.annotations["grove.io/topology-name"]',
    "$pg.spec.topologyConstraint.packConstraint.required",
    "$c.podGroupNames | length > 0",
    "$c.name",
    "$c.topologyConstraint.packConstraint.preferred",
    # The survey of other definitions.
    "(.spec.replicas // 1) * ((.spec.leaderWorkerTemplate.size // 1) - 1)",
    "to_entries[] | .key",
    '.spec | to_entries[] | select(.value | type == "object") | .key',
]
BINDERS = [
    (".spec.workerGroupSpecs[] as $wg", "wg"),
    ("$specs | to_entries[] as $r", "r"),
    ("range($n) as $i", "i"),
    ("to_entries[] as $e", "e"),
    (".spec.replicatedJobs[] as $rj", "rj"),
    ("range($rj.replicas // 1) as $i", "i"),
    (".spec.workerGroupSpecs[]? | select((.suspend // false)|not) as $wg", "wg"),
    ("range(.spec.replicas) as $g", "g"),
    ("$pg.spec.topologyConstraintGroupConfigs[]? as $c", "c"),
    ("$pg.spec.topologyConstraintGroupConfigs[]? | select(.podGroupNames|length>0) as $c", "c"),
    ("$pg.spec.podgroups[] | select(.name as $n | $c.podGroupNames | index($n)) as $g", "g"),
    ("$pg.spec.podgroups[] | select(.name as $n | $c.podGroupNames|index($n)) as $g", "g"),
    (
        "$pg.spec.podgroups[] | select(.name as $n | [$pg.spec.topologyConstraintGroupConfigs[]?.podGroupNames[]?] | "
        "index($n) | not) as $g",
        "g",
    ),
]
# The text, and why.
REFUSED = [
    ('$pod.metadata.name | sub("-[^-]*$";"")', "`sub` is not in the language"),
    ("[range(8)] | group_by(. % 2)", "`group_by` is not in the language"),
    ("$ENV", "`$ENV` reads the environment"),
    ("env", "`env` is not in the language"),
    ('import "data" as $d {search:"/any/dir"}; $d', "`import` reads files"),
    ("last(range(3e6))", "`last` is not in the language"),
    ("until(false;.)", "`until` is not in the language"),
    ("def f: f; f", "`def` defines a function"),
    ('reduce range(60) as $i ("ab";.+.)', "`reduce` is a loop"),
    ('("a"*30)|test("^(a+)+$b")', "`test` is not in the language"),
    ("..", "`..` descends"),
    ("min = max(0, root)", "`=` assigns"),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_is_accepted(text):
    assert expression.compile(text).text == text


@pytest.mark.parametrize(("text", "name"), BINDERS)
def test_is_a_binder(text, name):
    assert expression.compile_binder(text).name == name


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_is_refused_on_purpose(text, why):
    with pytest.raises(BadExpression) as caught:
        expression.compile(text)
    assert why in caught.value.message


GROVE = {
    "spec": {
        "podgroups": [
            {"name": "a", "minReplicas": 1},
            {"name": "b", "minReplicas": 2},
            {"name": "c", "minReplicas": 3},
        ],
        "topologyConstraintGroupConfigs": [{"name": "g", "podGroupNames": ["a", "c"]}],
    }
}


@pytest.mark.parametrize(
    ("text", "root", "variables", "wanted"),
    [
        (
            "([$wg.minReplicas,$wg.replicas]|map(select(.!=null and .>0))|first // 0) * ($wg.numOfHosts // 1)",
            None,
            {"wg": {"minReplicas": 0, "replicas": 3, "numOfHosts": 2}},
            [6],
        ),
        ("[$min-($m//0),0]|max", None, {"min": 5, "m": 1}, [4]),
        (
            "[range(4) as $i | if $i*$s >= $wmin then 0 elif $i==$n-1 and $w%$s!=0 then $w%$s else $s end]",
            None,
            {"s": 2, "wmin": 4, "n": 4, "w": 8},
            [[2, 2, 0, 0]],
        ),
        (
            "[range(3) as $i | if $i*$s >= $wmin then 0 elif $i==$n-1 and $w%$s!=0 then $w%$s else $s end]",
            None,
            {"s": 2, "wmin": 5, "n": 3, "w": 5},
            [[2, 2, 1]],
        ),
        (
            "[$pg.spec.podgroups[] | select(.name as $n | [$pg.spec.topologyConstraintGroupConfigs[]?.podGroupNames[]?]"
            " | index($n) | not) | .name]",
            None,
            {"pg": GROVE},
            [["b"]],
        ),
        (
            "(.spec.replicas // 1) * ((.spec.leaderWorkerTemplate.size // 1) - 1)",
            {"spec": {"replicas": 4, "leaderWorkerTemplate": {"size": 6}}},
            {},
            [20],
        ),
        ('$rev.x["min-scale"] // "1" | tonumber', None, {"rev": {"x": {"min-scale": "3"}}}, [3]),
        ('$rev.x["min-scale"] // "1" | tonumber', None, {"rev": {}}, [1]),
    ],
)
def test_gives(text: str, root: Any, variables: dict[str, Any], wanted: list[Any]):
    """The numbers of the notes."""
    assert expression.compile(text, variables=variables).values(root, variables, Meter()) == wanted
