"""Interfaces and workloads of any shape against a plain reading of them: the tree, the place of every pod, what fails.

The oracle walks over the structure that the interface was written from. It knows nothing of expressions.
"""

import json
from dataclasses import dataclass, field

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from muster.api.validation import ERROR, Context, validate
from muster.api.validation.violation import Report
from muster.grouping.compiler import compile_interface
from muster.grouping.names import dns_label
from muster.grouping.trouble import Trouble
from workloads import existing, grouper, places, pod, specs, work, written

BAD_COUNTS = ("x", -1, 1.5, [1], {})
ODD_NAMES = ("A_b", "x.y", 7, "", None, "\x07", "--", "one0", "one1")
KEY = ".metadata.labels.key"


@dataclass
class Written:
    """An entry, before it is written down. `item` is the variable that its fields are read from; empty: the spec.

    `loop` repeats it for the parts of `item` or for numbers; `named` says what its name is made of.
    """

    mark: str
    item: str
    loop: str = ""
    named: str = "literal"
    when: bool = False
    level: bool = False
    minimum: object = None
    replicas: bool = False
    loose: str = ""
    children: list = field(default_factory=list)

    @property
    def variable(self):
        return f"v{self.mark}" if self.loop else ""

    @property
    def own(self):
        """What its other fields are read from."""
        return self.variable if self.loop == "each" else self.item


@dataclass
class Gang:
    """A podGroups entry, before it is written down."""

    entries: list
    minimum: object = None
    keyed: bool = False
    ignore: bool = False
    chosen: bool = False
    when: bool = False


counts = st.none() | st.integers(0, 3) | st.tuples(
    st.lists(st.sampled_from(["min", "max", "n"]), min_size=1, max_size=3, unique=True).map(tuple), st.booleans()
)  # fmt: skip


@st.composite
def entries(draw, depth, item="", mark="", repeated=False):
    """Entries of one level and all below it."""
    found = []
    for number in range(draw(st.integers(1, 3 if depth == 3 else 2))):
        one = Written(f"{mark}{number}", item, loop=draw(st.sampled_from(["", "each", "each", "range"])))
        if one.loop:
            one.named = draw(st.sampled_from(["mixed", "own"]))
        one.when, one.level = draw(st.booleans()) and draw(st.booleans()), draw(st.booleans())
        if depth > 1 and draw(st.booleans()):
            below = draw(entries(depth - 1, one.own, one.mark, repeated or bool(one.loop)))
            one.children = below
            one.minimum = draw(counts)
        else:
            one.minimum, one.replicas = draw(counts), draw(st.booleans())
            if not repeated and not one.loop:
                one.loose = draw(st.sampled_from(["", "", "In", "NotIn"]))
        found.append(one)
    return found


@st.composite
def gangs(draw):
    flat = draw(st.sampled_from([False, False, False, True]))
    return Gang(
        [] if flat else draw(entries(3)),
        draw(counts),
        draw(st.sampled_from([False, False, True])),
        draw(st.booleans()) and not flat,
    )


@st.composite
def templates(draw):
    """One podGroups entry, or two of which the first has conditions."""
    found = [draw(gangs())]
    if draw(st.booleans()):
        first = draw(gangs())
        first.chosen, first.when = True, draw(st.booleans())
        found.insert(0, first)
    return found


@st.composite
def items(draw, depth=0, name="w"):
    """The data of one item; fields may be missing or null."""
    found = {"name": name, "on": draw(st.sampled_from([True, "yes", 0, False, None]))}
    for key in ("min", "max", "n"):
        if draw(st.integers(0, 9)) != 5:
            found[key] = draw(st.sampled_from([2, 1, 0, 3, 3.0 if key != "n" else 3, None]))
    found["level"] = draw(st.sampled_from(["rack", "zone", None]))
    found["tags"] = draw(st.sampled_from([None, [], ["t"], ["t", "u"]]))
    if depth < 3 and draw(st.integers(0, 5)) != 3:
        parts = range(draw(st.sampled_from([1, 2, 2, 3, 0][: 5 - depth])))
        found["parts"] = [draw(items(depth + 1, f"{name}{part}")) for part in parts]
    return found


@st.composite
def workloads(draw, name):
    """A workload, of which one item may be spoilt."""
    top = draw(items(name=name))
    if draw(st.sampled_from([False, False, True])):
        item = top
        while item.get("parts") and draw(st.booleans()):
            item = draw(st.sampled_from(item["parts"]))
        key = draw(st.sampled_from(["name", "min", "max"]))
        item[key] = draw(st.sampled_from(ODD_NAMES if key == "name" else BAD_COUNTS))
    return work(name, **top)


# The interface as people write it.


def field_of(item, key):
    return f"${item}.{key}" if item else f".spec.{key}"


def paths(minimum, name, item):
    """A minimum as it stands in an entry."""
    if minimum is None:
        return {}
    if isinstance(minimum, int):
        return {name: minimum}
    fields, positive = minimum
    found = {f"{name}Path": [field_of(item, key) for key in fields]}
    return found | ({"resolve": "FirstPositive"} if positive else {})


def name_of(one):
    if one.named == "literal":
        return f"e{one.mark}"
    value = f"${one.variable}.name" if one.loop == "each" else f"${one.variable}"
    return value if one.named == "own" and one.loop == "each" else f'"e{one.mark}-\\({value})"'


def document_of(one, above=()):
    found = {"componentName": name_of(one)}
    if one.loop == "each":
        found["foreach"] = f"{field_of(one.item, 'parts')}[] as ${one.variable}"
    elif one.loop == "range":
        found["foreach"] = f"range({field_of(one.item, 'n')} // 1) as ${one.variable}"
    variables = (*above, one) if one.loop else above
    if one.when:
        found["when"] = field_of(one.own, "on")
    if one.level:
        found["topology"] = {"requiredPath": field_of(one.own, "level")}
    if one.children:
        found["subgroups"] = [document_of(child, variables) for child in one.children]
        return found | paths(one.minimum, "minSubGroup", one.own)
    if one.replicas:
        found["replicasPath"] = field_of(one.own, "max")
    if one.loose:
        condition = {"key": "tag", "operator": one.loose, "valuePath": field_of(one.own, "tags")}
        found["podClassifier"] = {"matchExpressions": [condition]}
    else:
        labels = {f"is-{var.variable}": field_of(var.variable, "name") if var.loop == "each" else f"${var.variable}"
                  for var in variables}  # fmt: skip
        found["podClassifier"] = {"matchLabels": {"leaf": f"l{one.mark}", **labels}}
    return found | paths(one.minimum, "minReplicas", one.own)


def template_of(gang):
    found = paths(gang.minimum, "minSubGroup" if gang.entries else "minMember", "")
    if gang.entries:
        found["subgroups"] = [document_of(one) for one in gang.entries]
    if gang.keyed:
        found["instanceKeyPaths"] = KEY
    if gang.ignore:
        found["unmatchedPods"] = "Ignore"
    if gang.chosen:
        found["podClassifier"] = {"matchLabels": {"first": "yes"}}
    if gang.when:
        found["when"] = ".spec.on"
    return found


def compiled(gang_list):
    judgement = validate(written(*map(template_of, gang_list)), Context())
    report = Report([])
    made = compile_interface(judgement.object, report) if judgement.valid else None
    # Now and then two entries can't both be reached, and loading says so.
    assume(made is not None)
    return made


# The oracle: what must come out.


class Wrong(Exception):
    """The workload can't be grouped."""


def count_of(minimum, item):
    """A count as SPEC §9 says: first that is not null, or first that is positive."""
    if minimum is None or isinstance(minimum, int):
        return minimum
    fields, positive = minimum
    found = None
    for key in fields:
        value = item.get(key)
        if value is None:
            continue
        if not isinstance(value, int | float) or value < 0 or value != int(value):
            raise Wrong
        found = int(value)
        if found or not positive:
            break
    return found


def is_true(value):
    return value is not None and value is not False


def text_of(value):
    if value is not None and not isinstance(value, str | int):
        raise Wrong
    return None if value is None else str(value)


class Expected:
    """The nodes of one gang of a workload, in tree order: `rows` as they stand in a PodGroup, `leaves` with labels."""

    def __init__(self, gang, spec):
        self.rows, self.leaves, self.taken = [], [], set()
        count = count_of(gang.minimum, spec)
        if gang.entries:
            children = sum(self.add(one, "", {"": spec}, []) for one in gang.entries)
            if not children:
                raise Wrong
            self.head = {"minSubGroup": count} if count is not None and count < children else {}
        else:
            if count is None and gang.minimum is not None:
                raise Wrong
            self.head = {"minMember": 1 if count is None else count}

    def add(self, one, parent, known, above):
        """Adds an entry for each of its values; how many came of it."""
        if not one.loop:
            return self.put(one, parent, known, above)
        item = known[one.item]
        number = 1 if item.get("n") is None else item["n"]
        values = (item.get("parts") or []) if one.loop == "each" else range(number)
        return sum(self.put(one, parent, {**known, one.variable: value}, [*above, one]) for value in values)

    def put(self, one, parent, known, variables):
        item = known[one.own]
        if one.when and not is_true(item["on"]):
            return 0
        name = self.name(one, parent, known, [var for var in variables if var is not one])
        row = {"name": name, **({"parent": parent} if parent else {})}
        if one.level and item.get("level"):
            row["topologyConstraint"] = {"requiredTopologyLevel": item["level"]}
        if one.children:
            at = len(self.rows)
            self.rows.append(row)
            children = sum(self.add(child, name, known, variables) for child in one.children)
            if not children:
                del self.rows[at:]
                self.taken.discard(name)
                return 0
            count = count_of(one.minimum, item)
            if count is not None and count < children:
                row["minSubGroup"] = count
            return 1
        self.leaves.append((name, self.conditions(one, known, variables)))
        replicas = count_of((("max",), False), item) if one.replicas else None
        count = count_of(one.minimum, item)
        if count is None and one.minimum is not None:
            raise Wrong
        row["minMember"] = min(1 if count is None else count, *([] if replicas is None else [replicas]), 10**9)
        self.rows.append(row)
        return 1

    def name(self, one, parent, known, above):
        """Literal names below something repeated, and numbers, are told apart by the parent's name in front."""
        if one.named == "literal":
            text = f"e{one.mark}"
        else:
            value = known[one.variable]["name"] if one.loop == "each" else known[one.variable]
            text = text_of(value)
            if one.named != "own" or one.loop != "each":
                text = f"e{one.mark}-{'null' if text is None else text}"
        if not text:
            raise Wrong
        plain = one.loop != "each" and above
        # Data that do not lie inside those of every repetition above come again in each of them.
        inside, item = set(), one.item
        while item:
            inside.add(item)
            item = next(var.item for var in above if var.variable == item)
        apart = one.loop == "each" and not {var.variable for var in above} <= inside
        try:
            short = dns_label(text)
            name = dns_label(f"{parent}-{short}") if (plain or apart) and parent else short
        except Trouble:
            raise Wrong from None
        if name in self.taken:
            raise Wrong
        self.taken.add(name)
        return name

    def conditions(self, one, known, variables):
        if one.loose:
            return [("tag", one.loose, known[one.own].get("tags") or [])]
        found = [("leaf", "In", [f"l{one.mark}"])]
        for var in variables:
            value = text_of(known[var.variable]["name"] if var.loop == "each" else known[var.variable])
            if value is None:
                raise Wrong
            found.append((f"is-{var.variable}", "In", [value]))
        return found

    def leaf_of(self, labels):
        """The first leaf that takes a pod."""
        for name, conditions in self.leaves:
            if all((labels.get(key) in values) == (operator == "In") for key, operator, values in conditions):
                return name
        return None


def expected(gang_list, owner, a_pod):
    """What must come of a pod: its PodGroup and its leaf, or why not; and the tree."""
    labels, spec = a_pod["metadata"]["labels"], owner["spec"]
    there = [
        number
        for number, gang in enumerate(gang_list)
        if (not gang.when or is_true(spec["on"])) and (not gang.chosen or labels.get("first") == "yes")
    ]
    if not there:
        return "problem", None, None
    gang = gang_list[there[0]]
    parts = ["pg", owner["metadata"]["name"], owner["metadata"]["uid"]]
    parts += [f"gang-{there[0]}"] if len(gang_list) > 1 else []
    if gang.keyed:
        if not labels.get("key"):
            return "problem", None, None
        parts.append(labels["key"])
    try:
        tree = Expected(gang, spec)
    except Wrong:
        return "problem", None, None
    name = "-".join(parts)
    leaf = tree.leaf_of(labels) if gang.entries else ""
    if leaf is None:
        return "alone" if gang.ignore else "problem", name, tree
    return (name, leaf), name, tree


@st.composite
def crowds(draw, gang_list, name):
    """A workload and pods for it: most of them as its operator makes them, some not."""
    owner = draw(workloads(name))
    leaves = []
    for gang in gang_list:
        try:
            leaves += Expected(gang, owner["spec"]).leaves
        except Wrong:
            event("a workload that can't be grouped")
    pods = []
    for number in range(draw(st.integers(1, 5))):
        labels = {}
        if leaves:
            _, conditions = draw(st.sampled_from(leaves))
            labels = {key: values[0] for key, operator, values in conditions if operator == "In" and values}
        labels |= draw(st.sampled_from([{}, {}, {"tag": "t"}, {"tag": "u"}, {"leaf": "nobody"}]))
        labels |= draw(st.sampled_from([{"key": "k"}, {"key": "k"}, {"key": "l"}, {}]))
        labels |= draw(st.sampled_from([{"first": "yes"}, {}]))
        pods.append(pod(f"{name}-{number}", owner, **labels))
    return owner, pods


@st.composite
def worlds(draw):
    gang_list = draw(templates())
    crowd = [draw(crowds(gang_list, name)) for name in ("one", "two")[: draw(st.integers(1, 2))]]
    return gang_list, crowd


def levels(tree):
    """How deep a tree is; a flat gang has none."""
    depth = {}
    for row in tree.rows:
        depth[row["name"]] = depth.get(row.get("parent"), 0) + 1
    return max(depth.values(), default=0)


def tree_in(spec):
    return {key: value for key, value in spec.items() if key in ("minMember", "minSubGroup", "subGroups")}


@given(worlds())
def test_the_tree_and_the_place_of_every_pod(world):
    """As the oracle says; each pod is in one leaf, in one problem, or left alone; every PodGroup is valid."""
    gang_list, crowd = world
    made = compiled(gang_list)
    pods = [one for _, some in crowd for one in some]
    found = grouper(made, *(owner for owner, _ in crowd)).group(pods)
    answers = {one["metadata"]["name"]: expected(gang_list, owner, one) for owner, some in crowd for one in some}
    assert places(found) == {name: answer[0] for name, answer in answers.items() if isinstance(answer[0], tuple)}
    told = sorted(name for problem in found.problems for name in problem.pods)
    assert told == sorted(name for name, answer in answers.items() if answer[0] == "problem")
    assert sorted(key[1] for key, _ in found.alone) == sorted(
        name for name, answer in answers.items() if answer[0] == "alone"
    )
    trees = {name: tree for _, name, tree in answers.values() if tree is not None}
    assert {name: tree_in(spec) for name, spec in specs(found).items()} == {
        name: tree.head | ({"subGroups": tree.rows} if tree.rows else {}) for name, tree in trees.items()
    }
    for one in found.groups:
        assert not [each for each in validate(one.document, Context()).violations if each.severity == ERROR]
    for problem in found.problems:
        assert problem.message.isprintable()
    event("grouped" if found.groups else "nothing")
    event(f"levels: {max(map(levels, trees.values()), default=0)}")


@settings(max_examples=settings.default.max_examples // 3)
@given(worlds(), st.randoms(use_true_random=False))
def test_whoever_comes_first_and_how_often(world, random):
    """The order of pods changes nothing, nor does which pod is alone; and grouping again changes nothing."""
    gang_list, crowd = world
    made = compiled(gang_list)
    owners, pods = [owner for owner, _ in crowd], [one for _, some in crowd for one in some]
    found = grouper(made, *owners, explain=True).group(pods)
    turned = list(pods)
    random.shuffle(turned)
    assert grouper(made, *reversed(owners), explain=True).group(turned) == found
    there = existing(found)
    for keeper in (grouper(made, *owners), grouper(made, *json.loads(json.dumps(owners)))):
        again = keeper.group(turned, there)
        assert not [one for one in again.groups if one.changed]
        assert again.pods == found.pods
        assert keeper.group(pods, there) == again
    for one in pods[:4]:
        alone = grouper(made, *owners).group([one])
        assert specs(alone).items() <= specs(found).items()
        assert set(alone.pods) == {place for place in found.pods if place.name == one["metadata"]["name"]}
        assert bool(alone.problems) == any(one["metadata"]["name"] in problem.pods for problem in found.problems)


@settings(max_examples=settings.default.max_examples // 3)
@given(templates(), st.data())
def test_a_workload_that_changes_is_followed(gang_list, data):
    """From any state of the workload to any other, the PodGroup becomes what it would have been at once."""
    made = compiled(gang_list)
    (_, before), (owner, pods) = (data.draw(crowds(gang_list, "one")) for _ in range(2))
    first = grouper(made, data.draw(workloads("one"))).group(before)
    at_once = grouper(made, owner).group(pods)
    followed = grouper(made, owner).group(pods, existing(first))
    assert specs(followed) == specs(at_once)
    assert followed.pods == at_once.pods
    assert followed.problems == at_once.problems
