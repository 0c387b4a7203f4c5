"""Writes src/muster/embedded/wire.json: the numbers of the fields of the built-in kinds in protobuf.

`PYTHONPATH=src:tests .venv/bin/python -m fidelity.wire` reads the definitions in the Go modules that e2e/go.mod pins.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from muster.embedded.fields import names

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "src" / "muster" / "embedded" / "wire.json"
FIELD = re.compile(r"(optional|repeated|map<\w+, ?([.\w]+)>) ?([.\w]*) (\w+) = (\d+);")
# What is read by hand, and what no client sends this way.
BY_HAND = ("Quantity", "IntOrString", "Time", "MicroTime", "FieldsV1", "RawExtension")
LEFT_OUT = ("CustomResourceDefinition",)
PLAIN = ("string", "bytes", "bool", "int32", "int64", "double")


def folder(module: str) -> Path:
    """Where Go keeps a module; it is fetched if need be."""
    command = ["go", "mod", "download", "-json", module]
    done = subprocess.run(command, cwd=ROOT / "e2e", capture_output=True, text=True, check=True)
    return Path(json.loads(done.stdout)["Dir"])


def messages() -> dict[str, dict[str, Any]]:
    """All messages: number, then name, type, and whether it is one, many or a map."""
    found: dict[str, dict[str, Any]] = {}
    for module in ("k8s.io/api", "k8s.io/apimachinery"):
        for path in folder(module).rglob("generated.proto"):
            text = re.sub(r"//.*", "", path.read_text())
            package = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
            assert package, path
            for message in re.finditer(r"^message (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
                fields = {}
                for how, below, said, name, number in FIELD.findall(message[2]):
                    kind = (below or said).removeprefix(".")
                    whole = kind if kind in PLAIN or "." in kind else f"{package[1]}.{kind}"
                    fields[number] = [name, whole, {"optional": "", "repeated": "many"}.get(how, "map")]
                found[f"{package[1]}.{message[1]}"] = fields
    return found


def main() -> None:
    """Keep what the kinds of the embedded server need."""
    known = messages()
    needed = [
        name.replace("io.k8s.", "k8s.io.", 1) for (_, kind), name in sorted(names().items()) if kind not in LEFT_OUT
    ]
    kept: dict[str, Any] = {}
    while needed:
        name = needed.pop()
        if name not in kept and name.rpartition(".")[2] not in BY_HAND:
            kept[name] = known[name]
            needed += [kind for _, kind, _ in known[name].values() if kind not in PLAIN]
    lines = [f" {json.dumps(name)}: {json.dumps(kept[name], separators=(',', ':'))}" for name in sorted(kept)]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
