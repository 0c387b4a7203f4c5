"""The chain of a pod's owners: who is asked for, what is not there, what may not be read, what nobody should write."""

import itertools
import time
from typing import ClassVar

import pytest

from muster.grouping.owners import (
    MOST_LINKS,
    Absence,
    Identity,
    Link,
    Objects,
    Wanted,
    chain_of,
    identity_of,
    not_seen,
    split_version,
    title_of,
)
from muster.grouping.trouble import Trouble

RAY = "ray.io/v1"


def thing(api_version, kind, name, *owners, namespace="default", uid=None, **metadata):
    """An object whose owners are others; the first of them is its controller."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "uid": uid or f"uid-of-{name}",
            "ownerReferences": [reference_to(owner, controller=not index) for index, owner in enumerate(owners)],
            **metadata,
        },
    }


def reference_to(owner, **more):
    metadata = owner["metadata"]
    return {
        **{field: owner[field] for field in ("apiVersion", "kind")},
        **{field: metadata[field] for field in ("name", "uid")},
        **more,
    }


def pod(name="p", *owners, **more):
    return thing("v1", "Pod", name, *owners, **more)


def names(chain):
    return [link.object["metadata"]["name"] for link in chain]


class Forbidding:
    """A lookup that may not read some kinds, and remembers what it was asked."""

    def __init__(self, documents, *kinds):
        self.objects, self.kinds, self.asked = Objects(documents), kinds, []

    def get(self, wanted):
        self.asked.append(wanted)
        return Absence.FORBIDDEN if wanted.kind in self.kinds else self.objects.get(wanted)

    def select(self, api_version, kind, namespace, labels):
        return Absence.FORBIDDEN if kind in self.kinds else self.objects.select(api_version, kind, namespace, labels)


class TestIdentity:
    @pytest.mark.parametrize(
        ("api_version", "parts"),
        [
            ("v1", ("", "v1")),
            ("ray.io/v1", ("ray.io", "v1")),
            ("*", ("", "*")),
            ("ray.io/*", ("ray.io", "*")),
            ("", ("", "")),
        ],
    )
    def test_group_and_version_are_split_as_kubernetes_does(self, api_version, parts):
        assert split_version(api_version) == parts

    @pytest.mark.parametrize(
        ("garbage", "identity"),
        [
            (None, Identity("", "", "", "", "")),
            ([], Identity("", "", "", "", "")),
            ("Pod", Identity("", "", "", "", "")),
            ({}, Identity("", "", "", "", "")),
            ({"kind": 1, "apiVersion": None, "metadata": []}, Identity("", "", "", "", "")),
            ({"kind": "Pod", "metadata": "x"}, Identity("", "Pod", "", "", "")),
            ({"metadata": {"name": {}, "uid": 5, "namespace": "n"}}, Identity("", "", "n", "", "")),
        ],
        ids=str,
    )
    def test_garbage_has_an_empty_identity(self, garbage, identity):
        assert identity_of(garbage) == identity

    @pytest.mark.parametrize(
        ("parts", "title"),
        [
            (("RayJob", "default", "train"), "RayJob default/train"),
            (("Queue", "", "all"), "Queue all"),
            (("", "", ""), "object without a name"),
            (("Pod", "a b", "x\x1b[2J"), 'Pod "a b"/"x\\u001b[2J"'),
            (("Pod", "default", "n" * 5000), f'Pod default/"{"n" * 57}..."'),
            (("Pod", "default", "--all"), 'Pod default/"--all"'),
        ],
    )
    def test_a_title_is_short_and_safe_whatever_the_text(self, parts, title):
        assert title_of(*parts) == title


class TestChain:
    def test_a_pod_alone_is_its_own_chain(self):
        assert chain_of(pod(), Objects([])) == (Link(pod(), False),)

    def test_the_top_owner_comes_first_and_the_pod_last(self):
        job = thing(RAY, "RayJob", "job")
        cluster = thing(RAY, "RayCluster", "cluster", job)
        assert chain_of(pod("p", cluster), Objects([cluster, job])) == (
            Link(job),
            Link(cluster),
            Link(pod("p", cluster)),
        )

    def test_a_pod_may_stand_in_the_middle(self):
        """LeaderWorkerSet: the pods of a replica belong, through a StatefulSet, to the pod that leads it."""
        lws = thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws")
        leaders = thing("apps/v1", "StatefulSet", "lws", lws)
        leader = pod("lws-0", leaders)
        workers = thing("apps/v1", "StatefulSet", "lws-0", leader)
        worker = pod("lws-0-1", workers)
        chain = chain_of(worker, Objects([lws, leaders, leader, workers]))
        assert [(link.object["kind"], link.object["metadata"]["name"]) for link in chain] == [
            ("LeaderWorkerSet", "lws"),
            ("StatefulSet", "lws"),
            ("Pod", "lws-0"),
            ("StatefulSet", "lws-0"),
            ("Pod", "lws-0-1"),
        ]

    def test_the_bottom_need_not_be_a_pod(self):
        job = thing(RAY, "RayJob", "job")
        assert names(chain_of(thing(RAY, "RayCluster", "cluster", job), Objects([job]))) == ["job", "cluster"]

    a, b = thing("x/v1", "A", "a"), thing("x/v1", "B", "b")

    @pytest.mark.parametrize(
        ("references", "owner"),
        [
            ([reference_to(a), reference_to(b)], "a"),
            ([reference_to(a), reference_to(b, controller=True)], "b"),
            ([reference_to(a, controller=False), reference_to(b, controller=True)], "b"),
            ([reference_to(a, controller=True), reference_to(b, controller=True)], "a"),
            ([reference_to(a), reference_to(b, controller="true")], "a"),
            ([reference_to(a), reference_to(b, controller=1)], "a"),
            ([None, 7, "x", [], reference_to(b, controller=True)], "b"),
            ([{"controller": True, **reference_to(b)}, {}], "b"),
        ],
        ids=[
            "first",
            "controller",
            "not-false",
            "first-controller",
            "text-is-no",
            "one-is-no",
            "after-garbage",
            "before-garbage",
        ],
    )
    def test_the_owner_is_the_controller_else_the_first(self, references, owner):
        found = chain_of(pod(ownerReferences=references), Objects([self.a, self.b]))
        assert names(found) == [owner, "p"]

    @pytest.mark.parametrize("references", [None, []], ids=["null", "empty"])
    def test_no_references_is_no_owner(self, references):
        assert names(chain_of(pod(ownerReferences=references), Objects([]))) == ["p"]

    @pytest.mark.parametrize("metadata", [None, [], "x", 5, {}, {"labels": 3}], ids=repr)
    def test_an_object_without_metadata_has_no_owner(self, metadata):
        garbage = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        assert chain_of(garbage, Objects([])) == (Link(garbage),)

    @pytest.mark.parametrize(
        ("references", "says"),
        [
            ("x", "metadata.ownerReferences is no list"),
            ({"kind": "A"}, "metadata.ownerReferences is no list"),
            (0, "metadata.ownerReferences is no list"),
            ([None], "metadata.ownerReferences[0] is no reference but null"),
            ([["a"]], "metadata.ownerReferences[0] is no reference but a list"),
            ([{}], "metadata.ownerReferences[0].apiVersion is missing or no text"),
            ([{"apiVersion": "v1", "name": "a"}], "metadata.ownerReferences[0].kind is missing or no text"),
            (
                [{"apiVersion": "v1", "kind": "A", "name": ["a"]}],
                "metadata.ownerReferences[0].name is missing or no text",
            ),
            ([reference_to(a), {"controller": True}], "metadata.ownerReferences[1].apiVersion is missing or no text"),
        ],
        ids=["text", "mapping", "zero", "null", "list", "empty", "kind", "name", "controller"],
    )
    def test_a_reference_that_names_nobody_is_told(self, references, says):
        """It is not passed over: the pod would silently become another gang."""
        with pytest.raises(Trouble) as caught:
            chain_of(pod(ownerReferences=references), Objects([self.a]))
        assert caught.value.message == f"Pod default/p: {says}"
        assert caught.value.hint
        assert not caught.value.retry

    def test_ten_thousand_references_are_read(self):
        references = [reference_to(self.a)] * 9_999 + [reference_to(self.b, controller=True)]
        assert names(chain_of(pod(ownerReferences=references), Objects([self.a, self.b]))) == ["b", "p"]

    def test_the_chain_has_at_most_sixteen_links(self):
        line = [thing("x/v1", "A", "0")]
        for number in range(1, MOST_LINKS - 1):
            line.append(thing("x/v1", "A", str(number), line[-1]))
        assert len(chain_of(pod("p", line[-1]), Objects(line))) == MOST_LINKS
        line.append(thing("x/v1", "A", "more", line[-1]))
        with pytest.raises(Trouble, match="Pod default/p has more than 15 owners") as caught:
            chain_of(pod("p", line[-1]), Objects(line))
        assert not caught.value.retry

    def test_a_cycle_is_told_with_its_members(self):
        a, b = thing("x/v1", "A", "a"), thing("x/v2", "B", "b")
        a["metadata"]["ownerReferences"] = [reference_to(b)]
        b["metadata"]["ownerReferences"] = [reference_to(a)]
        with pytest.raises(Trouble) as caught:
            chain_of(pod("p", a), Objects([a, b]))
        assert caught.value.message == (
            "the owners of Pod default/p form a cycle: A default/a → B default/b → A default/a"
        )
        assert not caught.value.retry

    def test_who_owns_itself_is_a_cycle_though_the_version_differs(self):
        a = thing("x/v1", "A", "a")
        a["metadata"]["ownerReferences"] = [reference_to(a, apiVersion="x/v2", uid="other")]
        with pytest.raises(Trouble, match="the owners of A default/a form a cycle: A default/a → A default/a"):
            chain_of(a, Objects([a]))


class TestAbsence:
    def test_an_owner_that_was_not_seen_is_waited_for(self):
        cluster = thing(RAY, "RayCluster", "c")
        with pytest.raises(Trouble) as caught:
            chain_of(pod("p", cluster), Objects([]))
        assert caught.value.message == "RayCluster default/c, the owner of this Pod, was not seen"
        assert caught.value.hint == "add it to the input (kubectl get RayCluster c -o yaml)"
        assert caught.value.retry

    def test_the_object_that_refers_to_it_is_named(self):
        job = thing(RAY, "RayJob", "j", namespace="team")
        cluster = thing(RAY, "RayCluster", "c", job, namespace="team")
        with pytest.raises(Trouble) as caught:
            chain_of(pod("p", cluster, namespace="team"), Objects([cluster]))
        assert caught.value.message == "RayJob team/j, the owner of RayCluster team/c, was not seen"
        assert caught.value.hint == "add it to the input (kubectl get RayJob j -n team -o yaml)"

    @pytest.mark.parametrize("text", ["x; rm -rf /", "$(id)", "--all", "a\nb", "`id`"])
    def test_no_command_is_made_of_hostile_text(self, text):
        for wanted in (Wanted("v1", text, "n", "n"), Wanted("v1", "K", text, "n"), Wanted("v1", "K", "n", text)):
            told = not_seen(wanted, "the owner of x")
            assert told.hint == "add it to the input"
            assert (told.message + told.hint).isprintable()

    def test_a_namesake_of_another_uid_was_not_seen(self):
        old, new = thing(RAY, "RayCluster", "c", uid="old"), thing(RAY, "RayCluster", "c", uid="new")
        with pytest.raises(Trouble) as caught:
            chain_of(pod("p", old), Objects([new]))
        assert caught.value.message == (
            'RayCluster default/c with uid "old", the owner of this Pod, was not seen: '
            'the one of that name has uid "new"'
        )
        assert caught.value.retry

    @pytest.mark.parametrize("uid", [None, "", 5], ids=repr)
    @pytest.mark.parametrize("missing_in", ["reference", "object"])
    def test_a_uid_that_is_not_said_is_not_compared(self, uid, missing_in):
        cluster = thing(RAY, "RayCluster", "c")
        asking = pod("p", cluster)
        if missing_in == "reference":
            asking["metadata"]["ownerReferences"][0]["uid"] = uid
        else:
            cluster["metadata"]["uid"] = uid
        assert names(chain_of(asking, Objects([cluster]))) == ["c", "p"]

    def test_an_owner_that_may_not_be_read_is_known_by_its_reference_and_ends_the_chain(self):
        top = thing("x/v1", "Top", "top")
        secret = thing("x/v1", "Hidden", "hidden", top, namespace="team")
        mid = thing("x/v1", "Mid", "mid", secret, namespace="team")
        lookup = Forbidding([top, secret, mid], "Hidden")
        chain = chain_of(pod("p", mid, namespace="team"), lookup)
        assert chain[0] == Link(
            {
                "apiVersion": "x/v1",
                "kind": "Hidden",
                "metadata": {"name": "hidden", "namespace": "team", "uid": "uid-of-hidden"},
            },
            bare=True,
        )
        assert [link.bare for link in chain] == [True, False, False]
        assert [wanted.kind for wanted in lookup.asked] == ["Mid", "Hidden"]

    def test_the_lookup_is_asked_once_for_each_owner(self):
        job = thing(RAY, "RayJob", "j")
        cluster = thing(RAY, "RayCluster", "c", job)
        lookup = Forbidding([job, cluster])
        chain_of(pod("p", cluster), lookup)
        assert lookup.asked == [
            Wanted(RAY, "RayCluster", "default", "c", "uid-of-c"),
            Wanted(RAY, "RayJob", "default", "j", "uid-of-j"),
        ]


class TestObjects:
    @pytest.mark.parametrize(
        ("has", "asks", "found"),
        [
            ("default", "default", True),
            ("", "default", True),
            ("", "team", True),
            ("", "", True),
            ("default", "", True),
            ("team", "team", True),
            ("team", "default", False),
            ("default", "team", False),
            ("team", "", False),
        ],
    )
    def test_what_says_no_namespace_is_in_default_and_of_the_whole_cluster(self, has, asks, found):
        one = thing("x/v1", "A", "a", namespace=has)
        objects = Objects([one])
        assert objects.get(Wanted("x/v1", "A", asks, "a")) == (one if found else Absence.NOT_SEEN)
        assert objects.select("x/v1", "A", asks, {}) == ([one] if found else [])

    def test_the_namespace_that_is_asked_for_comes_before_none(self):
        far, near = thing("x/v1", "A", "a", namespace=""), thing("x/v1", "A", "a", namespace="team")
        for documents in ([far, near], [near, far]):
            assert Objects(documents).get(Wanted("x/v1", "A", "team", "a")) is near
            assert Objects(documents).select("x/v1", "A", "team", {}) == [near]

    def test_an_owner_of_the_whole_cluster_is_found_for_a_pod_of_a_namespace(self):
        owner = thing("x/v1", "Fleet", "f", namespace="")
        assert names(chain_of(pod("p", owner, namespace="team"), Objects([owner]))) == ["f", "p"]

    def test_a_pod_without_namespace_is_in_default(self):
        owner = thing("x/v1", "A", "a", namespace="default")
        assert names(chain_of(pod("p", owner, namespace=""), Objects([owner]))) == ["a", "p"]

    one: ClassVar = thing("ray.io/v1", "RayCluster", "c", uid="one")
    alpha: ClassVar = thing("ray.io/v1alpha1", "RayCluster", "c", uid="alpha")

    @pytest.mark.parametrize(
        ("documents", "version", "uid"),
        [
            ([one], "ray.io/v1alpha1", "one"),
            ([one], "ray.io/*", "one"),
            ([one, alpha], "ray.io/v1", "one"),
            ([alpha, one], "ray.io/v1alpha1", "alpha"),
            ([one, alpha], "ray.io/v2", "alpha"),
            ([alpha, one], "ray.io/*", "one"),
        ],
    )
    def test_any_version_will_do_and_the_exact_one_is_best(self, documents, version, uid):
        objects = Objects(documents)
        found = objects.get(Wanted(version, "RayCluster", "default", "c"))
        assert found["metadata"]["uid"] == uid
        assert [one["metadata"]["uid"] for one in objects.select(version, "RayCluster", "default", {})] == [uid]

    @pytest.mark.parametrize(
        ("api_version", "kind"),
        [("v1", "RayCluster"), ("other.io/v1", "RayCluster"), ("ray.io/v1", "RayJob"), ("ray.io/v1/x", "RayCluster")],
    )
    def test_another_group_or_kind_is_not_found(self, api_version, kind):
        objects = Objects([self.one])
        assert objects.get(Wanted(api_version, kind, "default", "c")) is Absence.NOT_SEEN
        assert objects.select(api_version, kind, "default", {}) == []

    @pytest.mark.parametrize("namespaces", list(itertools.product(["", "default"], repeat=2)), ids=str)
    def test_later_documents_replace_earlier_ones(self, namespaces):
        old, new = (
            thing("x/v1", "A", "a", namespace=namespace, uid=uid)
            for namespace, uid in zip(namespaces, ("old", "new"), strict=True)
        )
        objects = Objects([old, new])
        assert objects.get(Wanted("x/v1", "A", "default", "a")) is new
        assert objects.select("x/v1", "A", "default", {}) == [new]

    def test_the_last_version_that_came_is_the_one_without_a_best(self):
        again = thing("ray.io/v1", "RayCluster", "c", uid="again")
        found = Objects([self.one, self.alpha, again]).get(Wanted("ray.io/*", "RayCluster", "default", "c"))
        assert found is again

    def test_selecting_is_by_labels_and_in_the_order_of_names(self):
        documents = [
            thing("x/v1", "A", "c", labels={"app": "1", "more": "x"}),
            thing("x/v1", "A", "a", labels={"app": "1"}),
            thing("x/v1", "A", "other", labels={"app": "2"}),
            thing("x/v1", "A", "number", labels={"app": 1}),
            thing("x/v1", "A", "garbage", labels=["app"]),
            thing("x/v1", "A", "none"),
            thing("x/v1", "B", "b", labels={"app": "1"}),
            thing("x/v1", "A", "far", labels={"app": "1"}, namespace="team"),
        ]
        for order in (documents, documents[::-1]):
            found = Objects(order).select("x/*", "A", "default", {"app": "1"})
            assert [one["metadata"]["name"] for one in found] == ["a", "c"]

    @pytest.mark.parametrize(
        "garbage",
        [
            None,
            5,
            "x",
            [],
            {},
            {"kind": "A"},
            {"kind": ["A"], "metadata": {"name": "a"}},
            {"kind": "A", "metadata": {"name": 1}},
        ],
        ids=repr,
    )
    def test_garbage_is_not_found_and_hides_nothing(self, garbage):
        objects = Objects([garbage, self.one, garbage])
        assert objects.get(Wanted("ray.io/v1", "RayCluster", "default", "c")) is self.one
        assert objects.get(Wanted("", "A", "default", "a")) is Absence.NOT_SEEN

    def test_ten_thousand_pods_are_walked_without_scanning(self):
        """The bound is far above what it takes (0.2 s), and far below a scan per lookup."""
        documents, pods = [], []
        for number in range(500):
            job = thing(RAY, "RayJob", f"job-{number}")
            cluster = thing(RAY, "RayCluster", f"cluster-{number}", job)
            documents += [job, cluster]
            pods += [pod(f"pod-{number}-{index}", cluster) for index in range(20)]
        objects = Objects([*documents, *pods])
        start = time.process_time()
        assert {len(chain_of(one, objects)) for one in pods} == {3}
        assert time.process_time() - start < 3
