"""`muster manifests`: everything to install, as documents on stdout or as a folder for kustomize."""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from muster.api.writing import write_yaml
from muster.cli.installation import (
    IMAGE,
    NAMESPACE,
    PARTS,
    REPLICAS,
    Piece,
    Wishes,
    file_name,
    installation,
    kustomization,
)
from muster.cli.options import load_config, with_config, with_output
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, columns, say, say_data, tell
from muster.config import as_document
from muster.errors import UsageError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REFERENCE = re.compile(
    r"[a-zA-Z0-9][-a-zA-Z0-9._/]*(:[0-9]+/[-a-zA-Z0-9._/]+)?(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_KUSTOMIZATION = "kustomization.yaml"


@click.command(epilog="Example: muster manifests --without crds | kubectl apply --server-side -f -")
@click.option("--namespace", default=NAMESPACE, show_default=True, metavar="NAME", help="Where muster runs.")
@click.option("--image", default=IMAGE, show_default=True, metavar="IMAGE", help="The container image of muster.")
@click.option("--replicas", default=REPLICAS, show_default=True, type=click.IntRange(1, 9), help="One leads.")
@click.option(
    "--without",
    metavar="PART",
    multiple=True,
    help=f"Leave out: {', '.join(PARTS)}; with commas, or repeated.",
)
@click.option("--service-monitor", is_flag=True, help="Add a ServiceMonitor for the Prometheus operator.")
@click.option("--ignore-budgets", is_flag=True, help="Let queues that say so ignore disruption budgets.")
@click.option("--cert-manager", is_flag=True, help="Let cert-manager make the webhook's certificate.")
@click.option("--to", "folder", metavar="DIR", help="Write one file per object and a kustomization.yaml there.")
@with_output(YAML, JSON, NAME, TABLE, WIDE)
@with_config
def manifests(
    namespace: str,
    image: str,
    replicas: int,
    without: Sequence[str],
    service_monitor: bool,
    ignore_budgets: bool,
    cert_manager: bool,
    folder: str | None,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Print everything to install muster: namespace, CRDs, roles, Deployment, webhook, default queue.

    Nothing is sent anywhere. What the configuration says differently from the defaults (--config, --set) goes into the
    ConfigMap of the installation.
    """
    if folder is not None and form != YAML:
        raise UsageError(f"--to writes YAML files, and -o asks for {form}", "leave one of them out")
    loaded = load_config(config_file, flags)
    config = as_document(setting for setting in loaded.settings if setting.source != "default")
    pieces = installation(
        Wishes(
            namespace=_checked(namespace, _LABEL, "--namespace", "lower-case letters, digits and -, at most 63"),
            image=_checked(image, _REFERENCE, "--image", "for example registry.example.com/muster:1.0"),
            replicas=replicas,
            config=config,
            queue=loaded.config.default_queue,
            without=_parts(without),
            service_monitor=service_monitor,
            ignore_budgets=ignore_budgets,
            cert_manager=cert_manager,
            page="on" if loaded.config.page.enabled == "always" else "off",
        )
    )
    if folder is not None:
        _write(Path(folder), pieces)
    else:
        _say(pieces, form)
    if image == IMAGE:
        tell(f"note: nobody publishes {IMAGE}: build it with deploy/Dockerfile, and name yours with --image")


def _checked(text: str, allowed: re.Pattern[str], option: str, hint: str) -> str:
    if not allowed.fullmatch(text):
        raise UsageError(f"{option} can't be {text[:80]!r}", hint)
    return text


def _parts(without: Iterable[str]) -> frozenset[str]:
    named = [part.strip() for item in without for part in item.split(",")]
    for part in named:
        if part not in PARTS:
            from muster.api.nearest import Nearest

            hint = Nearest(PARTS).hint(part) or f"parts: {', '.join(PARTS)}"
            raise UsageError(f"--without {part[:60]!r}: there is no such part", hint)
    return frozenset(named)


def _say(pieces: list[Piece], form: str) -> None:
    documents = [piece.document for piece in pieces]
    if form == YAML:
        click.echo(write_yaml(documents), nl=False)
    elif form == JSON:
        say_data({"apiVersion": "v1", "kind": "List", "items": documents}, JSON)
    elif form == NAME:
        for one in documents:
            group = one["apiVersion"].rpartition("/")[0]
            say(f"{one['kind'].lower()}{'.' + group if group else ''}/{one['metadata']['name']}")
    else:
        rows = [("KIND", "NAMESPACE", "NAME", "PART")]
        for part, one in pieces:
            metadata = one["metadata"]
            rows.append((one["kind"], metadata.get("namespace", ""), metadata["name"], part))
        for line in columns(rows):
            say(line)


def _write(folder: Path, pieces: list[Piece]) -> None:
    """One file per object. Files of others, and those of an earlier run, stay: only the list says what counts."""
    texts = {file_name(document): write_yaml([document]) for _, document in pieces}
    assert len(texts) == len(pieces), "two objects in one file"
    texts[_KUSTOMIZATION] = write_yaml([kustomization(list(texts))])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        others = sorted(file.name for file in folder.glob("*.yaml") if file.name not in texts)
    except OSError as error:
        raise UsageError(f"can't write to {folder}: {error.strerror}", "name a folder that you may write to") from None
    tell(f"{len(pieces)} objects in {folder}")
    if others:
        tell(f"also there, but not in {_KUSTOMIZATION}: {', '.join(others[:10])}")
    tell(f"next: kubectl apply --server-side -k {shlex.quote(str(folder))}")
