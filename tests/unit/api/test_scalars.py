"""Unquoted scalars: what YAML 1.2 and kubectl make of them, where they differ, and what is quoted when written."""

import pytest
import yaml

from muster.api.scalars import is_doubtful, kubectl_scalar, needs_quotes, plain_scalar
from muster.api.writing import write_yaml


# What `kubectl label --local -o json` made of each of these (kubectl 1.32).
@pytest.mark.parametrize(
    ("text", "kubectl"),
    [
        *((word, True) for word in ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON")),
        *((word, False) for word in ("n", "N", "no", "No", "NO", "off", "Off", "OFF")),
        ("0644", 420),
        ("010", 8),
        ("-017", -15),
        ("1_000", 1000),
        ("0b11", 3),
        ("0X1F", 31),
        ("00e1", 0.0),
    ],
)
def test_where_kubectl_differs(text, kubectl):
    """muster keeps them as text and says so; the writer quotes them."""
    assert plain_scalar(text) == text
    assert kubectl_scalar(text) == kubectl
    assert is_doubtful(text)
    assert needs_quotes(text)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "rack-7",
        "yesno",
        "10.0.0.1",
        "8Gi",
        "500m",
        "2026-01-31",
        "1.2.3",
        "true",
        "null",
        "~",
        "3",
        "-3",
        "1.5",
        "1e3",
        "0x1F",
        "0",
        ".5",
        "0o17",
        "NO-1",
    ],
)
def test_where_both_agree(text):
    assert not is_doubtful(text)
    assert type(plain_scalar(text)) is type(kubectl_scalar(text))


@pytest.mark.parametrize(
    "text", ["y", "n", "Y", "N", "+0o7", "-0X_A", "1_0", "0644", "", "~", "null", "12", "-1", "=", "1e3", ".5"]
)
def test_text_stays_text_for_every_reader(text):
    """What is written as a key or value comes back as text in YAML 1.1 too."""
    written = write_yaml([{text: text}])
    assert yaml.safe_load(written) == {text: text}
    assert written.splitlines()[1][0] in "'\"?"
