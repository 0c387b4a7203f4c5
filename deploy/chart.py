"""Writes the Helm chart from the same documents that `muster manifests` prints: `.venv/bin/python deploy/chart.py`.

Values of the chart are templates in the documents; whether an object is there at all is an `if` around its file.
"""

import re
import sys
from pathlib import Path

from muster import __version__
from muster.api.writing import write_yaml
from muster.cli.installation import IMAGE, REPLICAS, RESOURCES, Document, Piece, Wishes, file_name, installation
from muster.cli.policies import DELETIONS_POLICY

CHART = Path(__file__).parent / "helm" / "muster"

TEMPLATES = Wishes(
    namespace="{{ .Release.Namespace }}",
    image="{{ .Values.image }}",
    replicas="{{ .Values.replicas }}",
    resources="{{ toJson .Values.resources }}",
    config="{{ toJson .Values.config | quote }}",
    digest="{{ toJson .Values.config | sha256sum | trunc 16 }}",
    queue='{{ .Values.config.defaultQueue | default "default-queue" }}',
    schedulers='{{ .Values.config.schedulerNames | default (list "kai-scheduler") | toJson | quote }}',
    service_monitor=True,
    ignore_budgets=True,
    page='{{ ternary "on" "off" .Values.page }}',
    without=frozenset(("namespace", "crds")),
)
# Templates that give more than a text: they stand without quotes.
_BARE = re.compile(
    r"'(\{\{ (?:\.Values\.replicas|toJson [^']*\| quote|\.Values\.config\.schedulerNames [^']*\| quote|"
    r"toJson \.Values\.resources) \}\})'"
)
_PARTS = {
    "rbac": "",
    "guard": "guard",
    "user-roles": "userRoles",
    "budget": "budget",
    "network-policy": "networkPolicy",
    "queue": "defaultQueue",
    "webhook": "webhook",
    "page": "page",
    "ignore-budgets": "ignoreBudgets",
    "": "",
}
# Made before the webhook is there to be asked. What a hook made stays when the release goes: gangs may still name it.
_HOOK = {"helm.sh/hook": "pre-install"}

VALUES = {
    "image": (IMAGE, "The container image. Nobody publishes this one: build it with deploy/Dockerfile."),
    "replicas": (REPLICAS, "One of them leads, the others stand by and answer the webhook."),
    "resources": (RESOURCES, "What a replica asks for, and may have."),
    "config": (
        {},
        "The configuration file, as `muster config -o yaml` prints it; only what differs from the defaults.",
    ),
    "webhook": (True, "Judge PodGroups, Queues, Topologies and ResourceInterfaces when they are written."),
    "certManager": (False, "cert-manager makes the webhook's certificate, else muster makes its own."),
    "guard": (True, "Policies: what muster may change of pods and gangs, and that only muster marks pods as admitted."),
    "budget": (True, "A PodDisruptionBudget: at most one replica is drained at a time."),
    "networkPolicy": (True, "Health and metrics only for namespaces with the label muster.dev/metrics: allowed."),
    "userRoles": (True, "muster's kinds in Kubernetes' own role view, PodGroups to write in edit and admin."),
    "defaultQueue": (True, "The queue of gangs that name none, without limits. Made once, then yours."),
    "page": (False, "Serve the page, at the Service muster-page. Who looks at it sees what their own rights let them."),
    "ignoreBudgets": (
        False,
        "muster may delete pods: Queues with muster.dev/reclaim-policy: IgnoreBudgets get back what they are owed.",
    ),
    "serviceMonitor": (False, "For the Prometheus operator."),
}


def files() -> dict[str, str]:
    """Every file of the chart, by its name there."""
    made = {
        "Chart.yaml": _chart(),
        "values.yaml": _values(),
        ".helmignore": "*.tgz\n",
        "crds/crds.yaml": (CHART.parents[1] / "crds.yaml").read_text(),
        "templates/NOTES.txt": _notes(),
    }
    own = {_key(piece): piece for piece in installation(TEMPLATES)}
    theirs = {_key(piece): piece for piece in installation(TEMPLATES._replace(cert_manager=True))}
    for key in [*own, *(key for key in theirs if key not in own)]:
        if own.get(key) == theirs.get(key):
            blocks = [_block(own[key], "")]
        else:
            blocks = [_block(own[key], "(not .Values.certManager)")] if key in own else []
            blocks += [_block(theirs[key], ".Values.certManager")] if key in theirs else []
        made[f"templates/{_file(own.get(key) or theirs[key])}"] = "".join(blocks)
    return made


def _key(piece: Piece) -> tuple[str, str]:
    return piece.document["kind"], piece.document["metadata"]["name"]


def _file(piece: Piece) -> str:
    name = file_name(piece.document)
    return "queue-default.yaml" if piece.part == "queue" else name


def _block(piece: Piece, condition: str) -> str:
    document = _hooked(piece.document) if piece.part == "queue" else piece.document
    part = "serviceMonitor" if document["kind"] == "ServiceMonitor" else _PARTS[piece.part]
    if document["metadata"]["name"] == DELETIONS_POLICY:
        condition = ".Values.ignoreBudgets"
    conditions = [*([f".Values.{part}"] if part else []), *([condition] if condition else [])]
    text = _BARE.sub(r"\1", write_yaml([document]))
    if not conditions:
        return text
    asked = conditions[0] if len(conditions) == 1 else f"and {' '.join(conditions)}"
    return f"{{{{- if {asked} }}}}\n{text}{{{{- end }}}}\n"


def _hooked(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "annotations": _HOOK}}


def _chart() -> str:
    chart = {
        "apiVersion": "v2",
        "name": "muster",
        "description": "A gang scheduler for Kubernetes.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
    }
    return write_yaml([chart]).removeprefix("---\n")


def _values() -> str:
    return "".join(
        f"# {says}\n{write_yaml([{key: value}])}".replace("---\n", "") for key, (value, says) in VALUES.items()
    )


def _notes() -> str:
    return (
        "muster runs in {{ .Release.Namespace }}.\n"
        "  kubectl -n {{ .Release.Namespace }} get pods\n"
        "  kubectl get podgroups -A\n"
    )


def main() -> None:
    """Writes all files; what was there and is no more goes."""
    wanted = files()
    for old in sorted(CHART.rglob("*")):
        if old.is_file() and str(old.relative_to(CHART)) not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text, encoding="utf-8", newline="\n")
    sys.stdout.write(f"{len(wanted)} files in {CHART}\n")


if __name__ == "__main__":
    main()
