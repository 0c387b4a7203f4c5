"""The measurements of the page, in a small cluster: what they time is what they say."""

from bench import page


def following():
    return page.Following(page.full(nodes=10, gangs=4, size=20, waiting=2))


def test_the_cluster_is_full_and_some_wait():
    frame = following().history.frame()
    assert frame["summary"] | {"gangs": 6, "running": 4, "pending": 2, "slots": 80, "free": 0} == frame["summary"]


def test_one_pod_ends_and_that_is_told():
    found = following()
    delta = found.follow(found.change())
    # Whose pod it was, and those in line, who are told the new numbers.
    assert {"bench/g000001"} <= set(delta["gangs"]["set"])
    assert len(delta["nodes"]["set"]) == 1
    assert found.note(found.change())
