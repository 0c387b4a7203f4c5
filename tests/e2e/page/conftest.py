"""One Chromium for all tests of the page, a fresh profile for each, and no complaint of the browser goes unheard."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from e2e.page import clusters
from e2e.page.looking import Looking
from e2e.page.serving import Serving

# Read now: the settings of the terminal do not reach the tests.
CHROMIUM = shutil.which(os.environ.get("MUSTER_TEST_CHROMIUM") or "chromium")
ASKED = os.environ.get("MUSTER_TEST_PAGE")

# A machine with other work to do is slow.
expect.set_options(timeout=20_000)

Open = Callable[..., Looking]
Serve = Callable[..., Serving]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Who asks for these tests with `make e2e` gets them, or hears why not."""
    if ASKED == "":
        pytest.skip("MUSTER_TEST_PAGE is empty")
    if CHROMIUM is None:
        reason = "there is no Chromium: make chromium installs it"
        if ASKED:
            pytest.fail(reason)
        pytest.skip(reason)
    # Chromium's own sandbox needs what containers and root do not have.
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Open]:
    """Somebody with a browser of their own; at the end nothing was complained about."""
    with ExitStack() as stack:
        people: list[Looking] = []

        def begin(**wishes: object) -> Looking:
            context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **wishes})
            stack.callback(context.close)
            people.append(Looking(context))
            return people[-1]

        yield begin
        for one in people:
            assert one.complaints == []


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """`muster ui` over a file of `clusters`, started once for all tests that want the same."""
    running: dict[str, Serving] = {}

    def serve(name: str) -> Serving:
        if name not in running:
            folder = tmp_path_factory.mktemp(name)
            file = clusters.write(folder / f"{name}.json", getattr(clusters, name)())
            running[name] = Serving("ui", "-f", file, "--port", 0, home=folder)
        return running[name]

    yield serve
    for one in running.values():
        one.stop()


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The demo, told without pauses, with the page beside it."""
    with Serving("demo", "--pace", "fast", home=tmp_path_factory.mktemp("demo")) as serving:
        yield serving


@pytest.fixture
def small(served: Serve, look: Open) -> Looking:
    """Somebody who looks at the small cluster."""
    return look().open(served("small").address)
