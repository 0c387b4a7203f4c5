"""Who failed again and again rests, and every rest ends."""

from muster.controllers.patience import Patience

S = 10**9


def test_a_rest_ends_although_an_older_attempt_is_answered_well_meanwhile() -> None:
    """Found by the simulation: the late answer took the rest away from the list, and the gang rested for ever."""
    patience: Patience[str] = Patience(free=1, first_s=5)
    assert patience.failed("g", sent_ns=1, now_ns=1 * S)
    patience.succeeded("g")
    assert patience.resting(2 * S) == ["g"]
    assert patience.rested(5 * S) == []
    assert patience.rested(6 * S) == ["g"]


def test_success_forgets_what_failed_before_it() -> None:
    patience: Patience[str] = Patience(free=2, first_s=5)
    assert not patience.failed("g", sent_ns=1, now_ns=1)
    patience.succeeded("g")
    assert not patience.failed("g", sent_ns=2, now_ns=2)
    assert patience.failed("g", sent_ns=3, now_ns=3)


def test_what_was_sent_together_fails_together() -> None:
    patience: Patience[str] = Patience(free=2)
    assert not patience.failed("g", sent_ns=1, now_ns=1)
    assert not patience.failed("g", sent_ns=1, now_ns=2)
    assert patience.failed("g", sent_ns=2, now_ns=3)
