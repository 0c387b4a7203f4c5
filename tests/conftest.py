"""Settings of all tests: property tests are deterministic, and `make deep` gives them more examples."""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "muster",
    max_examples=int(os.environ.get("MUSTER_TEST_EXAMPLES", "200")),
    deadline=None,
    derandomize="MUSTER_TEST_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("muster")


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens to be set in the terminal does not reach the tests."""
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:
        monkeypatch.delenv(name)
    # Nor does anybody's cluster.
    monkeypatch.setenv("KUBECONFIG", os.devnull + "/none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
