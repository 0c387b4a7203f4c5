"""How domains and regions look. What looks alike is interchangeable, so that a search tries it once."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from muster.api.once import once
from muster.api.tree import NONE
from muster.plan.model import Model, Table

State = tuple[object, ...]
# Slots that are left, per level in use.
Left = dict[tuple[int, int], Table]


class Looks:
    """How domains look: two that look alike are interchangeable.

    Where counting is exact a domain looks like its slots. Otherwise it looks like its nodes and what was put there.
    With several Topologies in one problem no two domains look alike.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.alike = len({topology for topology, _ in model.scales}) == 1
        self._touched: dict[tuple[int, int], dict[int, list[int]]] = {key: {} for key in model.scales}
        self._keys = sorted(model.scales)
        self._numbers: dict[object, int] = {}
        self._asked: dict[object, bool] = {}
        self._pinned: dict[tuple[int, int], set[int]] = {key: set() for key in self._keys}
        for region in model.problem.regions:
            self._pinned[region.bound.topology, region.bound.level].add(region.bound.pinned)
        self.signatures = self._sign()

    def _number(self, look: object) -> int:
        return self._numbers.setdefault(look, len(self._numbers))

    def _sign(self) -> list[int]:
        """What each region is, whoever it is: its needs and those inside it. Outer regions have lower numbers."""
        problem = self._model.problem
        found = [NONE] * len(problem.regions)
        for region in reversed(problem.regions):
            parts = sorted(problem.parts[part][1:3] for part in region.own)
            inside = sorted(found[child] for child in region.children)
            found[region.number] = self._number((region.bound[2:5], tuple(parts), tuple(inside)))
        return found

    @once
    def classes(self) -> dict[tuple[int, int], list[int]]:
        """Per level the class of every domain, from the narrowest level up: a domain is its narrower domains and the
        nodes beside them. Only found when something has to be tried twice.
        """
        model, found = self._model, dict[tuple[int, int], list[int]]()
        kind_of = self._kinds()
        narrower: tuple[int, int] | None = None
        for key in reversed(self._keys):
            scale = model.scales[key]
            # A domain that somebody is pinned to looks like no other: what is not placed yet will want it.
            own = [at if at in self._pinned[key] else NONE for at in range(len(scale.paths))]
            if narrower is None and model.exact:
                # Counting decides, so the sums are all that matters.
                columns = scale.slots.T
                found[key] = [self._number((key, own[at], columns[at].tobytes())) for at in range(len(own))]
                narrower = key
                continue
            inside: list[list[int]] = [[] for _ in scale.paths]
            beside = scale.domain_of != NONE
            if narrower is not None:
                beside &= model.scales[narrower].domain_of == NONE
                for domain, around in enumerate(self._model.wider(narrower, key)):
                    inside[around].append(found[narrower][domain])
            domains, kinds = scale.domain_of[beside], kind_of[beside]
            order = np.lexsort((kinds, domains))
            starts = np.searchsorted(domains[order], np.arange(len(scale.paths) + 1))
            kinds = kinds[order]
            found[key] = [
                self._number((key, own[at], tuple(sorted(inside[at])), kinds[starts[at] : starts[at + 1]].tobytes()))
                for at in range(len(scale.paths))
            ]
            narrower = key
        return found

    def _kinds(self) -> npt.NDArray[np.intp]:
        """Nodes with equal numbers are interchangeable."""
        model = self._model
        if model.exact:
            columns = list(model.slots)
        else:
            masks = [model.ledger.allowed[shape][model.rows].astype(np.int64) for shape in model.shapes]
            columns = [*(model.free[resource] for resource in model.active), *masks]
        found = np.zeros(len(model.rows), dtype=np.intp)
        for column in columns:
            _, code = np.unique(column, return_inverse=True)
            _, found = np.unique(found * (int(code.max(initial=0)) + 1) + code.reshape(-1), return_inverse=True)
        return found.reshape(-1)

    def touch(self, key: tuple[int, int], domain: int, region: int, sign: int) -> None:
        """A region came into a domain, or left it."""
        here = self._touched[key].setdefault(domain, [])
        if sign > 0:
            here.append(region)
        else:
            here.remove(region)
            if not here:
                del self._touched[key][domain]

    def remembered(
        self, key: tuple[int, int], domain: int, assigned: Sequence[int], ask: Callable[[list[int]], bool]
    ) -> bool:
        """What `ask` says of the regions in a domain; domains and regions that look alike are asked about once.

        With several Topologies the answer also depends on the domains around.
        """
        regions = self._touched[key][domain]
        look: object
        if self.alike:
            look = (self.classes[key][domain], tuple(sorted(self.signatures[region] for region in regions)))
        else:
            who = sorted(regions)
            around = [assigned[outer] for region in who for outer in self._model.problem.ancestors(region)]
            look = (domain, tuple(who), tuple(around))
        if look not in self._asked:
            self._asked[look] = ask(regions)
        return self._asked[look]

    def path(self, key: tuple[int, int], domain: int, outer: int, left: Left) -> object:
        """How a candidate looks, with all that is around it up to the level of the region that holds it."""
        if not self.alike:
            return domain
        look: list[object] = [self._own(key, domain, left)]
        for wider in self._keys:
            if outer < wider[1] < key[1]:
                around = int(self._model.wider(key, wider)[domain])
                touched = around in self._touched[wider]
                look.append(("at", around) if touched else self.classes[wider][around])
        return tuple(look)

    def _own(self, key: tuple[int, int], domain: int, left: Left) -> object:
        """What a domain is by itself."""
        here = self._touched[key].get(domain)
        if not here:
            return self.classes[key][domain]
        if key != self._keys[-1]:
            return ("at", domain)
        if self._model.exact:
            return domain if domain in self._pinned[key] else NONE, left[key][:, domain].tobytes()
        return self.classes[key][domain], tuple(sorted(self.signatures[region] for region in here))

    def state(self, at: int, left: Left, sequence: Sequence[int]) -> State:
        """How everything looks that has been touched; what has not is the rest of what there was at first."""
        problem = self._model.problem
        unfinished = {outer for region in sequence[at:] for outer in problem.ancestors(region)}
        if not self.alike:
            here = [
                (key, domain, tuple(sorted(found)))
                for key in self._keys
                for domain, found in self._touched[key].items()
            ]
            return (at, *sorted(here))
        # Looks of touched domains by the domain of the next wider level around them.
        nested: dict[tuple[int, int], list[str]] = {}
        for depth in range(len(self._keys) - 1, -1, -1):
            key = self._keys[depth]
            for domain, found in self._touched[key].items():
                still = sorted(region for region in found if region in unfinished)
                done = sorted(self.signatures[region] for region in found if region not in unfinished)
                put = left[key][:, domain].tobytes() if self._model.exact else done
                inside = sorted(nested.pop((depth, domain), []))
                around = int(self._model.wider(key, self._keys[depth - 1])[domain]) if depth else 0
                look = repr((self.classes[key][domain], still, put, inside))
                nested.setdefault((depth - 1, around), []).append(look)
        return at, tuple(sorted(nested.pop((NONE, 0), [])))
