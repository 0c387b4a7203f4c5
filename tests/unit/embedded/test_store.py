"""The store: one counter of revisions, lists of one moment, and a history that agrees with the documents."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.embedded.journal import Journal
from muster.embedded.refusals import Refused
from muster.embedded.store import Change, Exists, Gone, Key, Missing, Stale, Store

POD = Key("pods", "default", "a")


def document(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def version(found: dict[str, Any] | None) -> str:
    assert found is not None
    return str(found["metadata"]["resourceVersion"])


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store() if request.param == "memory" else Journal(tmp_path / "cluster.db")


def test_every_write_has_a_revision_of_its_own(store: Store) -> None:
    made = store.create(POD, document())
    changed = store.replace(POD, document(x=1), version(made))
    other = store.create(Key("nodes", "", "n"), document("n"))
    gone = store.remove(POD)
    assert [version(one) for one in (made, changed, other, gone)] == ["2", "3", "4", "5"]
    assert store.revision == 5
    assert store.get(POD) is None


def test_what_is_there_is_not_created_and_what_is_not_there_not_replaced(store: Store) -> None:
    with pytest.raises(Missing):
        store.replace(POD, document(), None)
    with pytest.raises(Missing):
        store.remove(POD)
    store.create(POD, document())
    with pytest.raises(Exists):
        store.create(POD, document())


def test_a_writer_who_saw_an_older_version_is_refused(store: Store) -> None:
    first = version(store.create(POD, document()))
    store.replace(POD, document(x=1), first)
    with pytest.raises(Stale):
        store.replace(POD, document(x=2), first)
    with pytest.raises(Stale):
        store.remove(POD, first)
    assert store.revision == 3


def test_the_same_content_is_no_write(store: Store) -> None:
    made = store.create(POD, document(x=1))
    seen: list[Change] = []
    store.subscribe(seen.append)
    assert store.replace(POD, document(x=1), None) is made
    assert (store.revision, seen) == (2, [])


def test_true_is_another_content_than_one(store: Store) -> None:
    store.create(POD, document(x=1))
    assert version(store.replace(POD, document(x=True), None)) == "3"


def test_lists_are_in_the_order_of_etcd(store: Store) -> None:
    for namespace, name in [("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "b")]:
        store.create(Key("pods", namespace, name), document(name))
    assert [item["metadata"]["name"] for item in store.list("pods").items] == ["y", "b", "z", "x"]  # "-" is before "/"
    assert [item["metadata"]["name"] for item in store.list("pods", "a").items] == ["b", "z"]


def test_pages_show_the_moment_of_the_first(store: Store) -> None:
    for name in "abcdef":
        store.create(Key("pods", "default", name), document(name))
    first = store.list("pods", limit=2)
    assert (first.revision, first.remaining) == (7, 4)
    store.remove(Key("pods", "default", "c"))
    store.create(Key("pods", "default", "ca"), document("ca"))
    store.replace(Key("pods", "default", "d"), document("d", new=True), None)
    second = store.list("pods", limit=3, continue_=first.continue_)
    third = store.list("pods", limit=3, continue_=second.continue_)
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page.items]
    assert names == list("abcdef")
    assert second.items[1]["spec"] == {}
    assert (third.revision, third.continue_, third.remaining) == (7, "", None)


def test_a_page_of_a_selection_is_full_and_says_nothing_of_the_rest(store: Store) -> None:
    for number in range(10):
        store.create(Key("pods", "default", f"p{number}"), document(f"p{number}", odd=number % 2))
    first = store.list("pods", limit=3, where=lambda one: bool(one["spec"]["odd"]))
    assert [item["metadata"]["name"] for item in first.items] == ["p1", "p3", "p5"]
    assert first.remaining is None
    second = store.list("pods", limit=3, continue_=first.continue_, where=lambda one: bool(one["spec"]["odd"]))
    assert [item["metadata"]["name"] for item in second.items] == ["p7", "p9"]
    assert second.continue_ == ""


def test_what_is_forgotten_is_said_to_be_gone(store: Store) -> None:
    for name in "abcd":
        store.create(Key("pods", "default", name), document(name))
    page = store.list("pods", limit=1)
    store.remove(Key("pods", "default", "d"))
    store.compact(5)
    assert [change.type for change in store.since(5, "pods")] == ["DELETED"]
    assert len(store.list("pods", continue_=page.continue_).items) == 3
    store.compact(6)
    with pytest.raises(Gone):
        store.since(5, "pods")
    with pytest.raises(Gone) as gone:
        store.list("pods", continue_=page.continue_)
    assert gone.value.continued
    assert store.since(6, "pods") == []
    with pytest.raises(Gone):
        store.list("pods", revision=5)


@pytest.mark.parametrize("token", ["!", "e30", "eyJ2IjoidjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "a", "é"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    with pytest.raises(Refused) as refused:
        Store().list("pods", continue_=token)
    assert refused.value.status == 400
    assert refused.value.message.startswith("continue key is not valid")


def test_history_is_bounded() -> None:
    store = Store(history=50)
    made = store.create(POD, document())
    for number in range(500):
        made = store.replace(POD, document(x=number), version(made))
    assert 45 <= len(store.since(store.compacted, "pods")) <= 50
    with pytest.raises(Gone):
        store.since(2, "pods")


def test_subscribers_hear_of_changes_in_their_order_also_of_those_that_they_cause() -> None:
    store = Store()
    heard: list[int] = []

    def causes(change: Change) -> None:
        if change.key == POD and change.type == "ADDED":
            store.create(Key("events", "default", "e"), document("e"))

    store.subscribe(causes)
    stop = store.subscribe(lambda change: heard.append(change.revision))
    store.create(POD, document())
    assert heard == [2, 3]
    stop()
    stop()
    store.remove(POD)
    assert heard == [2, 3]


# Any sequence of writes: a small world, so that they meet.
NAMES = st.sampled_from("abc")
WRITES = st.lists(
    st.tuples(st.sampled_from(["create", "replace", "remove", "compact"]), NAMES, NAMES, st.integers(0, 3)), max_size=40
)


def play(store: Store, write: tuple[str, str, str, int]) -> None:
    verb, namespace, name, number = write
    key = Key("pods", namespace, name)
    try:
        if verb == "create":
            store.create(key, document(name, n=number))
        elif verb == "replace":
            store.replace(key, document(name, n=number), None)
        elif verb == "remove":
            store.remove(key)
        else:
            store.compact(store.revision - number)
    except (Exists, Missing):
        pass


def replayed(base: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    found = dict(base)
    for change in changes:
        place = f"{change.key.namespace}/{change.key.name}"
        assert found.get(place) == change.before
        if change.type == "DELETED":
            del found[place]
        else:
            assert (change.type == "MODIFIED") == (place in found)
            found[place] = change.document
    return found


def shown(store: Store, namespace: str = "") -> dict[str, Any]:
    return {
        f"{key}/{item['metadata']['name']}": item
        for key in ("a", "b", "c")
        if namespace in ("", key)
        for item in store.list("pods", key).items
    }


@given(WRITES, WRITES)
def test_a_list_and_the_changes_after_it_are_the_list_of_now(before: list[Any], after: list[Any]) -> None:
    """list + watch = list: for every revision that is not forgotten, and for one namespace as for all."""
    store = Store()
    for write in before:
        play(store, write)
    start, base = store.revision, shown(store)
    heard: list[Change] = []
    store.subscribe(heard.append)
    for write in after:
        if write[0] != "compact":
            play(store, write)
    assert replayed(base, store.since(start, "pods")) == shown(store)
    assert heard == store.since(start, "pods")
    here = {place: item for place, item in base.items() if place.startswith("a/")}
    assert replayed(here, store.since(start, "pods", "a")) == shown(store, "a")
    past = store.list("pods", revision=start)
    assert past.items == [base[place] for place in sorted(base)]


@given(WRITES, st.integers(1, 4), WRITES)
def test_pages_together_are_the_list(writes: list[Any], limit: int, meanwhile: list[Any]) -> None:
    """However small the pages, and whatever is written between them."""
    store = Store()
    for write in writes:
        play(store, write)
    whole = store.list("pods")
    items, token = [], ""
    between = iter([write for write in meanwhile if write[0] != "compact"])
    while True:
        page = store.list("pods", limit=limit, continue_=token)
        assert page.revision == whole.revision
        items += page.items
        token = page.continue_
        if not token:
            break
        for write in between:
            play(store, write)
            break
    assert items == whole.items


@settings(max_examples=25, deadline=None)
@given(writes=WRITES)
def test_a_file_opened_again_is_the_same_store(tmp_path_factory: pytest.TempPathFactory, writes: list[Any]) -> None:
    """Documents, revisions, history and what is forgotten."""
    path = tmp_path_factory.mktemp("journal") / "cluster.db"
    memory = Store()
    for part in (writes[: len(writes) // 2], writes[len(writes) // 2 :]):
        journal = Journal(path)
        for write in part:
            play(memory, write)
            play(journal, write)
        journal.close()
    opened = Journal(path)
    assert (opened.revision, opened.compacted) == (memory.revision, memory.compacted)
    assert opened.list("pods") == memory.list("pods")
    assert opened.since(opened.compacted, "pods") == memory.since(memory.compacted, "pods")
    opened.close()


def test_one_who_fails_does_not_keep_the_news_from_others() -> None:
    store, heard = Store(), []

    def fail(change: Change) -> None:
        raise ZeroDivisionError

    store.subscribe(fail)
    store.subscribe(lambda change: heard.append(change.revision))
    with pytest.raises(ZeroDivisionError):
        store.create(POD, document())
    assert heard == [2]
    assert store.get(POD) is not None


def test_a_copy_goes_its_own_way(store: Store) -> None:
    """It has the same documents, revisions and history, and neither hears of the other."""
    store.create(POD, document())
    store.replace(POD, document(x=1), None)
    heard: list[Change] = []
    store.subscribe(heard.append)
    copy = store.copy()
    assert (copy.list("pods"), copy.revision) == (store.list("pods"), store.revision)
    assert copy.since(1, "pods") == store.since(1, "pods")
    copy.create(Key("pods", "default", "b"), document("b"))
    assert not heard
    assert [one["metadata"]["name"] for one in store.list("pods").items] == ["a"]
    store.remove(POD)
    assert [one["metadata"]["name"] for one in copy.list("pods").items] == ["a", "b"]
