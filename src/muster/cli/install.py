"""What to install and how it is set up: `muster crds`, `muster config`, `muster completion`."""

import sys

import click
from click.shell_completion import get_completion_class

from muster.api.writing import write_yaml
from muster.cli.options import load_config, with_config, with_output
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, columns, say, say_data, tell
from muster.config import as_document, in_words, variable_of


@click.command(epilog="Example: muster crds | kubectl apply --server-side -f -")
@with_output(YAML, JSON, NAME, TABLE, WIDE)
def crds(form: str) -> None:
    """Print the CustomResourceDefinitions of PodGroup, Queue, Topology and ResourceInterface."""
    from muster.api.crd import custom_resource_definitions

    made = custom_resource_definitions()
    if form == YAML:
        click.echo(write_yaml(made), nl=False)
    elif form == JSON:
        say_data({"apiVersion": "v1", "kind": "List", "items": made}, JSON)
    elif form == NAME:
        for one in made:
            say(f"customresourcedefinition.apiextensions.k8s.io/{one['metadata']['name']}")
    else:
        rows = [("NAME", "KIND", "VERSION", "SCOPE", "SHORT")]
        for one in made:
            spec = one["spec"]
            short = ",".join(spec["names"].get("shortNames", []))
            version = spec["versions"][0]["name"]
            rows.append((one["metadata"]["name"], spec["names"]["kind"], version, spec["scope"], short))
        for line in columns(rows):
            say(line)


@click.command(epilog="Example: muster config --set validation.zeroMinimum=Warn")
@with_output(TABLE, JSON, YAML, NAME, WIDE)
@with_config
def config(form: str, config_file: str | None, flags: tuple[str, ...]) -> None:
    """Print the effective configuration: every key, its value, and where the value comes from.

    Flags win over the environment, the environment over the file, the file over the defaults. -o yaml prints a file
    that can be used with --config; -o wide adds the environment variable of every key.
    """
    loaded = load_config(config_file, flags)
    if form == JSON:
        say_data([setting._asdict() for setting in loaded.settings], JSON)
    elif form == YAML:
        say_data(as_document(loaded.settings), YAML)
    elif form == NAME:
        for setting in loaded.settings:
            say(setting.key)
    else:
        wide = form == WIDE
        rows = [("KEY", "VALUE", "SOURCE", *(("VARIABLE",) if wide else ()))]
        for key, value, source in loaded.settings:
            rows.append((key, in_words(value), source, *((variable_of(key),) if wide else ())))
        for line in columns(rows):
            say(line)
        tell("next: muster config -o yaml > muster.yaml, then --config muster.yaml")


_SETUP = {
    "bash": 'eval "$(muster completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(muster completion zsh)"   # in ~/.zshrc',
    "fish": "muster completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command(epilog='Example: eval "$(muster completion bash)"')
@click.argument("shell", type=click.Choice(list(_SETUP)))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from muster.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "muster", "_MUSTER_COMPLETE").source())
    if sys.stdout.isatty():
        tell(f"next: {_SETUP[shell]}")
