"""`muster crds`, `muster config`, `muster completion`, help and version."""

from pathlib import Path

import pytest
import yaml

from muster import __version__
from muster.cli.main import _COMMANDS

ROOT = Path(__file__).parents[3]


def test_version(muster):
    run = muster("--version")
    assert (run.code, run.out) == (0, f"muster {__version__}\n")


@pytest.mark.parametrize("command", ["", *_COMMANDS])
def test_every_help_text_ends_with_an_example(muster, command):
    run = muster(*([command] if command else []), "--help")
    assert run.code == 0
    assert run.out.rstrip().splitlines()[-1].strip().startswith("Example: ")


def test_a_misspelled_command_is_corrected(muster):
    run = muster("validat")
    assert run.code == 2
    assert "did you mean validate?" in run.err


def test_the_shipped_crds_are_current(muster):
    """deploy/crds.yaml is what the structs say now; `make crds` writes it again."""
    assert (ROOT / "deploy" / "crds.yaml").read_text() == muster("crds").out


def test_crds_in_every_form(muster):
    documents = list(yaml.safe_load_all(muster("crds").out))
    assert muster("crds", "-o", "json").json["items"] == documents
    assert muster("crds", "-o", "name").out.splitlines() == [
        f"customresourcedefinition.apiextensions.k8s.io/{one['metadata']['name']}" for one in documents
    ]


def test_config_says_where_each_value_comes_from(muster, tmp_path, monkeypatch):
    """A flag wins over the environment, the environment over the file, the file over the default."""
    file = tmp_path / "muster.yaml"
    file.write_text("defaultQueue: from-file\nvalidation: {zeroMinimum: Warn}\ninput: {maxDepth: 50}\n")
    monkeypatch.setenv("MUSTER_VALIDATION_ZERO_MINIMUM", "Allow")
    monkeypatch.setenv("MUSTER_INPUT_MAX_DEPTH", "60")
    run = muster("config", "--config", file, "--set", "input.maxDepth=70", "-o", "json")
    found = {row["key"]: (row["value"], row["source"]) for row in run.json}
    assert found["defaultQueue"] == ("from-file", f"file {file}")
    assert found["validation.zeroMinimum"] == ("Allow", "environment MUSTER_VALIDATION_ZERO_MINIMUM")
    assert found["input.maxDepth"] == (70, "flag --set")
    assert found["input.maxFileBytes"] == (67108864, "default")


def test_config_file_by_environment_and_before_the_command(muster, tmp_path, monkeypatch):
    file = tmp_path / "muster.yaml"
    file.write_text("defaultQueue: here\n")
    assert "here" in muster("--config", file, "config").out
    monkeypatch.setenv("MUSTER_CONFIG", str(file))
    assert "here" in muster("config").out


def test_printed_config_can_be_used(muster, tmp_path):
    file = tmp_path / "muster.yaml"
    file.write_text(muster("config", "-o", "yaml", "--set", "validation.zeroMinimum=Warn").out)
    run = muster("config", "--config", file, "-o", "json")
    assert {row["source"] for row in run.json} == {f"file {file}"}
    assert {row["key"]: row["value"] for row in run.json}["validation.zeroMinimum"] == "Warn"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("validaton: {}", "validaton is not a known field; did you mean validation?", id="unknown part"),
        pytest.param("validation: {zerominimum: Warn}", "did you mean zeroMinimum?", id="unknown key"),
        pytest.param("validation: {zeroMinimum: warn}", "did you mean Warn?", id="unknown word"),
        pytest.param("input: {maxDepth: many}", "input.maxDepth must be a whole number", id="wrong type"),
        pytest.param("input: {maxDepth: 100000}", "input.maxDepth must not be over 200", id="out of range"),
        pytest.param("[1]", "must be a mapping", id="no mapping"),
        pytest.param("a: [", "not YAML", id="no YAML"),
        pytest.param("a: 1\n---\nb: 2", "holds 2 documents", id="two documents"),
    ],
)
def test_a_wrong_config_file_exits_2_and_says_what(muster, tmp_path, text, words):
    file = tmp_path / "muster.yaml"
    file.write_text(text)
    run = muster("config", "--config", file)
    assert run.code == 2
    assert words in run.err
    assert run.out == ""


def test_unknown_variables_are_errors_but_service_links_are_not(muster, monkeypatch):
    """Kubernetes gives every container variables for a Service called muster-webhook; those are nobody's mistake."""
    monkeypatch.setenv("MUSTER_WEBHOOK_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("MUSTER_WEBHOOK_PORT_443_TCP_ADDR", "10.0.0.1")
    assert muster("config").code == 0
    monkeypatch.setenv("MUSTER_DEFAULT_QEUE", "x")
    run = muster("config")
    assert run.code == 2
    assert "did you mean MUSTER_DEFAULT_QUEUE?" in run.err


def test_configuration_has_an_effect(muster):
    """zeroMinimum decides whether a minimum of 0 is an error, a warning, or nothing."""
    text = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: z}\nspec: {minMember: 0}\n"
    severities = [
        [
            row["severity"]
            for row in muster(
                "validate", "-f", "-", "-o", "json", "--set", f"validation.zeroMinimum={word}", stdin=text
            ).json
        ]
        for word in ("Deny", "Warn", "Allow")
    ]
    assert severities == [["error"], ["warning"], []]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(muster, shell):
    run = muster("completion", shell)
    assert run.code == 0
    assert "_MUSTER_COMPLETE" in run.out
