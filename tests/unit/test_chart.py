"""The Helm chart and the Dockerfile. No engine here can run them: the chart is rendered by a tiny reader of the few
templates that it uses, and must give the objects of `muster manifests`.
"""

import hashlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster import __version__
from muster.cli.installation import Wishes, installation

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "muster"
FILES = sorted(path for path in CHART.rglob("*") if path.is_file())


def load_chart() -> Any:
    spec = importlib.util.spec_from_file_location("chart", DEPLOY / "chart.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values(**more: Any) -> dict[str, Any]:
    return yaml.safe_load((CHART / "values.yaml").read_text()) | more


# A reader of templates.


def value_of(word: str, context: dict[str, Any]) -> Any:
    """A path, a text, or a negation in brackets."""
    if word.startswith("(not "):
        return not value_of(word[5:-1], context)
    if word.startswith('"'):
        return json.loads(word)
    at: Any = context
    for part in word[1:].split("."):
        at = at.get(part) if isinstance(at, dict) else None
    return at


def evaluate(text: str, context: dict[str, Any]) -> str:
    """What stands between {{ and }}: a value, then functions."""
    first, *pipes = [part.strip() for part in text.split("|")]
    name, _, rest = first.partition(" ")
    if name == "ternary":
        yes, no, word = rest.split(" ")
        return str(json.loads(yes if value_of(word, context) else no))
    value = json.dumps(value_of(rest, context), sort_keys=True) if name == "toJson" else value_of(first, context)
    for pipe in pipes:
        function, _, argument = pipe.partition(" ")
        if function == "default":
            words = re.fullmatch(r"\(list (.+)\)", argument)
            value = value or ([json.loads(word) for word in words[1].split()] if words else json.loads(argument))
        elif function == "toJson":
            value = json.dumps(value, separators=(",", ":"))
        elif function == "quote":
            value = json.dumps(value)
        elif function == "sha256sum":
            value = hashlib.sha256(value.encode()).hexdigest()
        elif function == "trunc":
            value = value[: int(argument)]
        else:
            raise AssertionError(f"this reader does not know {function}")
    assert value is not None, text
    return str(value).lower() if isinstance(value, bool) else str(value)


def holds(condition: str, context: dict[str, Any]) -> bool:
    words = re.findall(r"\([^)]*\)|\S+", condition)
    return all(value_of(word, context) for word in (words[1:] if words[0] == "and" else words))


def render(text: str, context: dict[str, Any]) -> str:
    """A template with `if` around whole documents and values in them."""
    lines, keep = [], True
    for line in text.splitlines():
        control = re.fullmatch(r"\{\{- (if (?P<condition>.+)|end) \}\}", line)
        if control:
            keep = holds(control["condition"], context) if control["condition"] else True
        elif keep:
            lines.append(re.sub(r"\{\{ (.+?) \}\}", lambda found: evaluate(found[1], context), line))
    return "\n".join(lines)


def rendered(namespace: str = "muster-system", **more: Any) -> dict[tuple[str, str], dict]:
    """All objects of a release, by kind and name."""
    context = {"Values": values(**more), "Release": {"Namespace": namespace}}
    found = {}
    for path in sorted((CHART / "templates").glob("*.yaml")):
        for item in yaml.safe_load_all(render(path.read_text(), context)):
            if item:
                found[item["kind"], item["metadata"]["name"]] = item
    return found


def comparable(found: dict[tuple[str, str], dict]) -> dict[tuple[str, str], dict]:
    """Without what must differ: the spelling of the configuration and its digest, and the hook of the queue."""
    items = json.loads(json.dumps(list(found.values())))
    for item in items:
        if item["kind"] == "ConfigMap":
            item["data"] = {name: yaml.safe_load(text) for name, text in item["data"].items()}
        if item["kind"] == "Deployment":
            assert len(item["spec"]["template"]["metadata"]["annotations"].pop("muster.dev/config")) == 16
        if item["kind"] == "Queue":
            item["metadata"].pop("annotations", None)
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


def printed(wishes: Wishes) -> dict[tuple[str, str], dict]:
    left_out = wishes.without | {"namespace", "crds"}
    pieces = installation(wishes._replace(without=left_out))
    return {(one.document["kind"], one.document["metadata"]["name"]): one.document for one in pieces}


# The chart.


def test_the_chart_is_what_the_documents_say_now():
    """`.venv/bin/python deploy/chart.py` writes it again."""
    written = {str(path.relative_to(CHART)): path.read_text() for path in FILES}
    assert written == load_chart().files()


@pytest.mark.parametrize(
    ("more", "wishes"),
    [
        pytest.param({}, Wishes(), id="as it comes"),
        pytest.param({"webhook": False}, Wishes(without=frozenset({"webhook"})), id="without webhook"),
        pytest.param({"certManager": True}, Wishes(cert_manager=True), id="cert-manager"),
        pytest.param(
            {"webhook": False, "certManager": True},
            Wishes(cert_manager=True, without=frozenset({"webhook"})),
            id="cert-manager without webhook",
        ),
        pytest.param({"serviceMonitor": True}, Wishes(service_monitor=True), id="service monitor"),
        pytest.param({"page": True}, Wishes(page="on"), id="page"),
        pytest.param({"ignoreBudgets": True}, Wishes(ignore_budgets=True), id="budgets may be ignored"),
        pytest.param(
            {"ignoreBudgets": True, "guard": False},
            Wishes(ignore_budgets=True, without=frozenset({"guard"})),
            id="budgets may be ignored, without policies",
        ),
        pytest.param(
            {"budget": False, "guard": False, "userRoles": False, "defaultQueue": False, "networkPolicy": False},
            Wishes(without=frozenset({"budget", "guard", "user-roles", "queue", "network-policy"})),
            id="less",
        ),
        pytest.param(
            {"image": "example.com/m:1", "replicas": 1}, Wishes(image="example.com/m:1", replicas=1), id="image"
        ),
        pytest.param({"resources": {}}, Wishes(resources={}), id="resources"),
        pytest.param(
            {"config": {"defaultQueue": "all", "schedulerNames": ["it's", 'a "b"']}},
            Wishes(config={"defaultQueue": "all", "schedulerNames": ["it's", 'a "b"']}, queue="all"),
            id="config",
        ),
    ],
)
def test_the_chart_gives_the_objects_of_the_command(more, wishes):
    assert comparable(rendered(**more)) == comparable(printed(wishes))


def test_the_namespace_of_the_release_is_used_everywhere():
    found = rendered("elsewhere")
    assert comparable(found) == comparable(printed(Wishes(namespace="elsewhere")))
    assert "muster-system" not in json.dumps(list(found.values()))


def test_the_chart_installs_the_crds_first():
    """Helm takes the folder crds/ before all templates, and never deletes what is in it."""
    assert (CHART / "crds" / "crds.yaml").read_text() == (DEPLOY / "crds.yaml").read_text()
    assert not [
        path for path in (CHART / "templates").iterdir() if "customresourcedefinition" in path.read_text().lower()
    ]


def test_the_queue_comes_before_the_webhook_that_would_judge_it():
    """Helm installs kinds that it does not know last, when nobody serves the webhook yet; a hook comes first."""
    (queue,) = [item for (kind, _), item in rendered().items() if kind == "Queue"]
    assert queue["metadata"]["annotations"]["helm.sh/hook"] == "pre-install"


def test_versions_agree():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2"
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert values()["image"].endswith(f":{__version__}")


def test_every_value_is_used_and_every_template_has_its_value():
    used = set()
    for path in (CHART / "templates").iterdir():
        for found in re.findall(r"\{\{-? ?(.*?) ?\}\}", path.read_text()):
            assert "\n" not in found
            used |= set(re.findall(r"\.Values\.(\w+)", found))
    assert used == set(values())


def test_every_value_is_explained():
    text = (CHART / "values.yaml").read_text()
    for key in values():
        assert re.search(rf"^# .+\n{key}:", text, re.MULTILINE), key


# The Dockerfile.


def stages() -> list[list[str]]:
    """The instructions of each stage, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line]
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("FROM "):
            found.append([])
        found[-1].append(line)
    return found


def test_the_image_is_small_and_not_root():
    build, final = stages()
    assert build[0] == "FROM python:3.11-slim AS build"
    assert final[0] == "FROM python:3.11-slim"
    assert "USER 65532:65532" in final
    assert 'ENTRYPOINT ["muster"]' in final
    assert not [line for line in final if line.startswith(("RUN ", "ADD "))]
    assert [line for line in final if line.startswith("COPY ")] == ["COPY --from=build /opt/muster /opt/muster"]
    assert any("--require-hashes" in line for line in build)


def test_the_user_of_the_image_is_that_of_the_pods():
    (user,) = [line.split()[1] for line in stages()[1] if line.startswith("USER ")]
    context = rendered()["Deployment", "muster"]["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_all_that_the_build_copies_is_there_and_reaches_it():
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"
    copied = [line.split()[1:-1] for line in stages()[0] if line.startswith("COPY ")]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert name in allowed, name
    assert {name for names in copied for name in names} == set(allowed)
