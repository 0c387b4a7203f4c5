"""The page's modules that need no browser, tested where they run: tests/page_js, by the Node that Playwright brings."""

import subprocess
from pathlib import Path

import pytest
from playwright._impl._driver import compute_driver_executable

FOLDER = Path(__file__).parents[2] / "page_js"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.test.mjs")), ids=lambda file: file.name.partition(".")[0])
def test_modules_by_themselves(file):
    node, _ = compute_driver_executable()
    done = subprocess.run([node, "--test", file], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
