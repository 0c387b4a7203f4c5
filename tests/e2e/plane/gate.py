"""Who gets a control plane: tests that ask for one are skipped in one sentence unless it is wanted and can be had."""

import os

import pytest

from e2e.plane.build import build, obstacle

# Read once: every test starts without the terminal's settings.
WANTED = bool(os.environ.get("MUSTER_TEST_PLANE"))


def require() -> None:
    """Skip the module that calls this, unless it can have a control plane."""
    why = obstacle() if WANTED else "set MUSTER_TEST_PLANE=1 to test against a real control plane"
    if why:
        pytest.skip(why, allow_module_level=True)


def obtain(config: pytest.Config) -> None:
    """See to it that the programs are built, with the progress on the terminal."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        build()
