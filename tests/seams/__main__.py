"""`make seams` and `make frozen`."""

import argparse
import subprocess
import sys

from seams import frozen, measures


def main() -> int:
    """The exit code is 1 when something differs from what was recorded."""
    parser = argparse.ArgumentParser(prog="python -m seams", epilog="Example: python -m seams check")
    parser.add_argument("what", nargs="?", default="measures", choices=("measures", "check", "freeze"))
    parser.add_argument("--names", action="store_true", help="the files that know each seam")
    parser.add_argument("--seeds", type=int, default=frozen.SEEDS, help="how many seeds are compared")
    given = parser.parse_args()
    if given.what == "measures":
        sys.stdout.write("".join(f"{line}\n" for line in measures.report(names=given.names)))
        return 0
    if given.what == "freeze":
        head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        sys.stdout.write(f"{frozen.freeze(head.stdout.strip()):,} digests recorded\n")
        return 0
    now, then = frozen.digests(seeds=given.seeds), frozen.recorded()
    kept = {name: one for name, one in then.items() if name in now or not name.startswith("seed/")}
    found = frozen.differences(now, kept)
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.write(f"{len(kept):,} digests compared, {len(found):,} differ\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
