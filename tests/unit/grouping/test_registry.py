"""Which interfaces are asked about a kind: whose comes first, which of several, and what is told about it."""

import itertools

import pytest

from muster.api.interface import GROUP, SKIP, KindReference
from muster.errors import UsageError
from muster.grouping.model import Interface
from muster.grouping.registry import BUILT_IN, USER, Candidates, Preference, Registry, check_prefer, is_for

RAY = KindReference(group="ray.io", version="*", kind="RayCluster")
RAY_V1 = KindReference(group="ray.io", version="v1", kind="RayCluster")
RAY_ALPHA = KindReference(group="ray.io", version="v1alpha1", kind="RayCluster")
POD = KindReference(kind="Pod")


def interface(name, target=RAY, *, created="2026-01-01T00:00:00Z", built_in=False, action=GROUP):
    return Interface(name=name, target=target, created=created, built_in=built_in, action=action)


def names(candidates):
    return [one.name for one in candidates.interfaces]


CATALOG = [interface("raycluster", built_in=True), interface("pod", POD, built_in=True)]


class TestOrder:
    def test_a_users_comes_before_the_built_in_one(self):
        registry = Registry(CATALOG, [interface("mine")])
        assert names(registry.candidates("ray.io/v1", "RayCluster")) == ["mine", "raycluster"]

    def test_one_of_the_same_name_does_not_take_the_built_in_one_away(self):
        """Handing over still reaches it."""
        found = Registry(CATALOG, [interface("raycluster")]).candidates("ray.io/v1", "RayCluster")
        assert [(one.name, one.built_in) for one in found.interfaces] == [("raycluster", False), ("raycluster", True)]

    @pytest.mark.parametrize(
        ("api_version", "kind"),
        [
            ("ray.io/v1", "RayJob"),
            ("v1", "RayCluster"),
            ("x.io/v1", "RayCluster"),
            ("", ""),
            ("ray.io/v1", "raycluster"),
        ],
    )
    def test_a_kind_that_nobody_knows_has_none(self, api_version, kind):
        assert Registry(CATALOG, [interface("mine")]).candidates(api_version, kind) == Candidates((), ())

    @pytest.mark.parametrize(
        ("prefer", "ray", "pod"),
        [
            ((), USER, USER),
            ((USER,), USER, USER),
            ((BUILT_IN,), BUILT_IN, BUILT_IN),
            (("RayCluster.ray.io=built-in",), BUILT_IN, USER),
            ((BUILT_IN, "RayCluster.ray.io=user"), USER, BUILT_IN),
            (("RayCluster.ray.io=user", BUILT_IN), USER, BUILT_IN),
            (("Pod=built-in",), USER, BUILT_IN),
            (("RayCluster=built-in", "Pod.ray.io=built-in"), USER, USER),
            ((USER, "Pod=built-in", "Pod=built-in", USER), USER, BUILT_IN),
        ],
        ids=str,
    )
    def test_the_configuration_turns_it_round_for_all_or_for_one_kind(self, prefer, ray, pod):
        registry = Registry(CATALOG, [interface("my-ray"), interface("my-pod", POD)], prefer=prefer)
        assert names(registry.candidates("ray.io/v1", "RayCluster")) == (
            ["my-ray", "raycluster"] if ray == USER else ["raycluster", "my-ray"]
        )
        assert names(registry.candidates("v1", "Pod")) == (["my-pod", "pod"] if pod == USER else ["pod", "my-pod"])

    def test_what_was_found_is_remembered(self):
        registry = Registry(CATALOG, [])
        assert registry.candidates("ray.io/v1", "RayCluster") is registry.candidates("ray.io/v1", "RayCluster")

    def test_memory_does_not_grow_with_versions_that_nobody_names(self):
        registry = Registry(CATALOG, [interface("mine", RAY_V1)])
        found = {id(registry.candidates(f"ray.io/v{number}", "RayCluster")) for number in range(2, 1000)}
        assert len(found) == 1
        assert names(registry.candidates("ray.io/v2", "RayCluster")) == ["raycluster"]
        assert names(registry.candidates("ray.io/v1", "RayCluster")) == ["mine", "raycluster"]
        assert names(registry.candidates("ray.io/*", "RayCluster")) == ["raycluster"]


class TestConflict:
    """Of several users' interfaces for one kind, one is asked, and that is told."""

    CASES = {
        "exact-version-before-older": (
            [interface("any", created="2020-01-01T00:00:00Z"), interface("exact", RAY_V1)],
            "exact",
            '2 ResourceInterfaces are for RayCluster.ray.io/v1: "exact" is asked, '
            'because it names the version v1, instead of "any"',
        ),
        "older": (
            [interface("a", created="2026-01-02T00:00:00Z"), interface("z", created="2026-01-01T00:00:00Z")],
            "z",
            '2 ResourceInterfaces are for RayCluster.ray.io: "z" is asked, because it is older, instead of "a"',
        ),
        "older-in-another-zone": (
            [interface("a", created="2026-01-01T00:30:00+00:00"), interface("z", created="2026-01-01T01:00:00+02:00")],
            "z",
            '2 ResourceInterfaces are for RayCluster.ray.io: "z" is asked, because it is older, instead of "a"',
        ),
        "without-a-time-is-oldest": (
            [interface("a"), interface("z", created="")],
            "z",
            '2 ResourceInterfaces are for RayCluster.ray.io: "z" is asked, because it is older, instead of "a"',
        ),
        "name": (
            [interface("b"), interface("c"), interface("a")],
            "a",
            '3 ResourceInterfaces are for RayCluster.ray.io: "a" is asked, because its name comes first, '
            'instead of "b", "c"',
        ),
        "one-time-in-two-spellings": (
            [interface("b", created="2026-01-01T00:00:00Z"), interface("a", created="2026-01-01T01:00:00+01:00")],
            "a",
            '2 ResourceInterfaces are for RayCluster.ray.io: "a" is asked, because its name comes first, '
            'instead of "b"',
        ),
        "no-time-at-all": (
            [interface("b", created="yesterday"), interface("a", created="0001-01-01T00:00:00+23:00")],
            "a",
            '2 ResourceInterfaces are for RayCluster.ray.io: "a" is asked, because its name comes first, '
            'instead of "b"',
        ),
    }

    @pytest.mark.parametrize(("users", "winner", "warning"), CASES.values(), ids=CASES)
    def test_the_winner_and_the_warning_do_not_depend_on_the_order(self, users, winner, warning):
        for order in itertools.permutations(users):
            for _ in range(2):  # The answer that is remembered says the same.
                found = Registry(CATALOG, order).candidates("ray.io/v1", "RayCluster")
                assert names(found) == [winner, "raycluster"]
                assert found.warnings == (warning,)

    def test_a_version_that_does_not_match_is_no_candidate_and_no_conflict(self):
        registry = Registry(CATALOG, [interface("alpha", RAY_ALPHA), interface("one", RAY_V1)])
        assert registry.candidates("ray.io/v1", "RayCluster").warnings == ()
        assert names(registry.candidates("ray.io/v1", "RayCluster")) == ["one", "raycluster"]
        assert names(registry.candidates("ray.io/v1alpha1", "RayCluster")) == ["alpha", "raycluster"]
        assert names(registry.candidates("ray.io/v2", "RayCluster")) == ["raycluster"]

    def test_interfaces_for_different_kinds_are_no_conflict(self):
        registry = Registry([], [interface("a"), interface("b", POD)])
        assert registry.candidates("ray.io/v1", "RayCluster").warnings == ()

    def test_a_users_and_a_built_in_one_are_no_conflict(self):
        assert Registry(CATALOG, [interface("mine")]).candidates("ray.io/v1", "RayCluster").warnings == ()

    def test_the_catalog_may_name_a_version_but_not_say_the_same_twice(self):
        meant = Registry([interface("a", RAY_V1, built_in=True), interface("b", built_in=True)], [])
        assert meant.candidates("ray.io/v1", "RayCluster") == Candidates((interface("a", RAY_V1, built_in=True),), ())
        twice = Registry([interface("a", built_in=True), interface("b", built_in=True)], [])
        (warning,) = twice.candidates("ray.io/v1", "RayCluster").warnings
        assert warning.startswith("2 ResourceInterfaces (built in) are for RayCluster.ray.io")

    def test_of_two_with_one_name_the_later_counts(self):
        registry = Registry([], [interface("mine"), interface("mine", action=SKIP)])
        assert registry.candidates("ray.io/v1", "RayCluster") == Candidates((interface("mine", action=SKIP),), ())


class TestUnused:
    INVALID = {"broken": (RAY, "spec.let.n: line 1, column 3: nobody knows $x")}

    def test_an_invalid_one_is_not_asked_and_that_is_told(self):
        registry = Registry(CATALOG, [], invalid=self.INVALID)
        found = registry.candidates("ray.io/v1", "RayCluster")
        assert names(found) == ["raycluster"]
        assert found.warnings == (
            'ResourceInterface "broken" for RayCluster.ray.io is not used: '
            "spec.let.n: line 1, column 3: nobody knows $x",
        )

    def test_a_kind_that_has_only_an_invalid_one_is_told_about_too(self):
        found = Registry([], [], invalid=self.INVALID).candidates("ray.io/v1", "RayCluster")
        assert found.interfaces == ()
        assert len(found.warnings) == 1

    @pytest.mark.parametrize(
        ("target", "api_version", "told"),
        [(RAY_V1, "ray.io/v1", 1), (RAY_V1, "ray.io/v2", 0), (RAY, "ray.io/v2", 1), (POD, "ray.io/v1", 0)],
    )
    def test_only_workloads_of_its_kind_and_version_are_told(self, target, api_version, told):
        registry = Registry(CATALOG, [], invalid={"broken": (target, "bad")})
        assert len(registry.candidates(api_version, "RayCluster").warnings) == told

    @pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
    def test_the_order_of_the_invalid_ones_does_not_matter(self, order):
        registry = Registry([], [], invalid=dict.fromkeys(order, (RAY, "bad")))
        assert [text.split()[1] for text in registry.candidates("ray.io/v1", "RayCluster").warnings] == [
            '"a"',
            '"b"',
            '"c"',
        ]

    @pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
    @pytest.mark.parametrize("built_in", [False, True])
    def test_secrets_and_config_maps_are_no_targets_even_here(self, kind, built_in):
        spy = interface("spy", KindReference(kind=kind), built_in=built_in)
        registry = Registry([spy] if built_in else [], [] if built_in else [spy])
        found = registry.candidates("v1", kind)
        assert found.interfaces == ()
        whose = '"spy" (built in)' if built_in else '"spy"'
        assert found.warnings == (f"ResourceInterface {whose} for {kind} is not used: {kind} is no target",)
        assert registry.named("spy") is None
        assert registry.unusable("spy") == found.warnings[0]

    def test_a_secret_of_another_group_is_a_kind_like_any_other(self):
        registry = Registry([], [interface("ok", KindReference(group="x.io", kind="Secret"))])
        assert names(registry.candidates("x.io/v1", "Secret")) == ["ok"]


class TestNames:
    def test_a_users_comes_before_the_built_in_one_whatever_is_preferred(self):
        registry = Registry(CATALOG, [interface("raycluster")], prefer=(BUILT_IN,))
        assert registry.named("raycluster") == interface("raycluster")
        assert registry.named("pod") == CATALOG[1]
        assert registry.named("nobody") is None
        assert registry.named("") is None

    def test_one_that_lost_can_still_be_named(self):
        registry = Registry([], [interface("a"), interface("b")])
        assert registry.named("b") == interface("b")

    def test_an_invalid_one_can_not(self):
        registry = Registry([], [], invalid=TestUnused.INVALID)
        assert registry.named("broken") is None
        assert registry.unusable("broken")
        assert registry.unusable("other") == ""

    def test_the_nearest_name_is_known_also_after_many_other_questions(self):
        """The search is bounded; one mistake of many pods costs one search."""
        registry = Registry(CATALOG, [interface("trainer")])
        assert {registry.nearest("raycluser") for _ in range(100)} == {"did you mean raycluster?"}
        for number in range(100):
            registry.nearest(f"unknown-{number}")
        assert registry.nearest("raycluser") == "did you mean raycluster?"
        assert registry.nearest("x" * 100_000) == ""


class TestPreference:
    @pytest.mark.parametrize(
        ("items", "preference"),
        [
            ([], Preference(USER, {})),
            (["built-in"], Preference(BUILT_IN, {})),
            (["built-in", "Job.batch=user"], Preference(BUILT_IN, {("batch", "Job"): USER})),
            (["Pod=built-in"], Preference(USER, {("", "Pod"): BUILT_IN})),
            (
                ["LeaderWorkerSet.leaderworkerset.x-k8s.io=built-in"],
                Preference(USER, {("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): BUILT_IN}),
            ),
        ],
        ids=str,
    )
    def test_what_is_said(self, items, preference):
        assert check_prefer(items) == preference

    @pytest.mark.parametrize(
        "item",
        [
            *("", "User", "builtin", "built_in", "default", " user", "user ", "=user", "=", "Pod", "Pod=", "Pod=mine"),
            *("pod=user", "Pod==user", "Pod.=user", "Pod.UPPER=user", "RayCluster.ray.io/v1=user", "Pod=user=user"),
            *("Pod =user", "Pod\n=user", "user\n", "Pod.-x=user"),
        ],
    )
    def test_what_nobody_understands_is_refused(self, item):
        with pytest.raises(UsageError) as caught:
            check_prefer([USER, item])
        assert caught.value.message.startswith("grouping.prefer: ")
        assert caught.value.message.isprintable()
        assert "RayCluster.ray.io=built-in" in caught.value.hint
        with pytest.raises(UsageError):
            Registry([], [], prefer=[item])

    @pytest.mark.parametrize(
        ("items", "what"), [([USER, BUILT_IN], "all kinds"), (["Job.batch=user", "Job.batch=built-in"], '"Job.batch"')]
    )
    def test_both_at_once_is_refused(self, items, what):
        with pytest.raises(UsageError, match=f"both user and built-in are preferred for {what}"):
            check_prefer(items)


@pytest.mark.parametrize(
    ("target", "api_version", "kind", "answer"),
    [
        (RAY, "ray.io/v1", "RayCluster", True),
        (RAY, "ray.io/v2", "RayCluster", True),
        (RAY_V1, "ray.io/v1", "RayCluster", True),
        (RAY_V1, "ray.io/v2", "RayCluster", False),
        (RAY, "ray.io/v1", "RayJob", False),
        (RAY, "v1", "RayCluster", False),
        (POD, "v1", "Pod", True),
        (POD, "x.io/v1", "Pod", False),
    ],
)
def test_whom_a_target_means(target, api_version, kind, answer):
    assert is_for(target, api_version, kind) is answer
