"""Plays a story: server, people, kubelets and muster in virtual time, and the judge who sees everything."""

import functools
import itertools
import operator
import random
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from muster.api.crd import custom_resource_definitions
from muster.api.rules import CHECKS
from muster.controllers.process import Setup
from muster.decisions.plan import Bind, Evict, decide
from muster.embedded import exchange, objects
from muster.embedded.reading import Watch
from muster.embedded.running import Running
from muster.embedded.schema import Check
from muster.embedded.server import Server, document_of
from muster.embedded.store import Change, Store
from muster.kube.transport import Request
from muster.plan.outcome import Plan
from muster.sim.deeds import deeds_of, defects_of
from muster.sim.expecting import Moves, differs, look
from muster.sim.faults import Weather
from muster.sim.judging import Judge
from muster.sim.machine import Machine, Stuck
from muster.sim.objects import BEGIN
from muster.sim.people import People
from muster.sim.processes import LEASE_NAMESPACE, Player
from muster.sim.rest import at_rest, rests_until_s
from muster.sim.scenario import BadScenario, Expected
from muster.sim.stage import sender
from muster.sim.steps import Steps
from muster.sim.story import Happening, Story
from muster.sim.trace import Line, Outcome, Trace, Violation
from muster.sim.wire import Asked

# So long after a change the kubelets and operators have noticed it.
NOTICE_S = 0.05
# So long nothing may change before it is calm: longer than the usual grace period.
CALM_S = 75.0
# Between two steps of a scenario: longer than a pause between two cycles. Where time has passed, muster is awake.
STEP_CALM_S, TIMED_CALM_S = 5.0, 0.9
_LEASES, _EVENTS = "leases.coordination.k8s.io", "events"


# One object, so that what is made of it is made once.
_NO_CHECKS: dict[str, Check] = {}
Follow = Callable[[float, str, Change], None]


def play(
    story: Story, *, keep: bool = False, see: Callable[[Line], None] | None = None, follow: Follow | None = None
) -> Outcome:
    """What comes of a story. `keep`: with all lines; `see` is told of each line at once, `follow` of each change."""
    return Play(story, keep=keep, see=see, follow=follow).run()


class Play:
    """A story while it is played."""

    def __init__(
        self,
        story: Story,
        *,
        keep: bool = False,
        see: Callable[[Line], None] | None = None,
        follow: Follow | None = None,
    ) -> None:
        self.story, self._follow = story, follow
        self.machine = Machine()
        self.trace = Trace(lambda: self.machine.now_s, keep, see)
        self.violations: list[Violation] = []
        self._who = "server"
        self._away_until_s = 0.0
        self._calm_since_s = 0.0
        self._is_noticed = True
        self._lease = ("", 0.0, 0.0)
        self.server = _server(story, lambda: BEGIN.timestamp() + self.machine.now_s)
        self.running = Running(self.server)
        self.weather = Weather(story.faults, story.seed, lambda: self.machine.now_s)
        self.people = People(
            story, self.server, lambda: self.machine.now_s, self._later, lambda text: self.trace.say("people", text)
        )
        self.judge = Judge(story, self.server, lambda: self.machine.now_s, self._broken)
        self.moves = Moves()
        self.server.core.store.subscribe(self._changed)
        self.players = [self._player(number) for number in range(story.processes)]

    def _player(self, number: int) -> Player:
        return Player(
            number,
            self.machine,
            self,
            self.weather,
            seed=self.story.seed,
            latency_s=self.story.latency,
            elects=self.story.elects or self.story.processes > 1,
            setup=Setup(),
            sent=self._sent,
            answered=self._answered,
            saw=self.judge.saw,
            happened=self._happened,
            ended=lambda: self.judge.ended(number),
            struck=self._struck,
            broken=self._broken,
            planned=self._planned,
            wants_log=self.trace.is_read,
        )

    # From the beginning to the end.

    def run(self) -> Outcome:
        """All of it."""
        try:
            self._run()
        except Stuck as stuck:
            self._broken("L6", str(stuck))
        finally:
            for player in self.players:
                player.leave()
            self.machine.close()
            self.people.close()
        found = sorted(self.violations, key=lambda one: one.at_s)
        return Outcome(found, self.trace.digest, self.trace.lines, self.trace.counts, self.machine.now_s, self.server)

    def _run(self) -> None:
        with self._acting("people"):
            self.people.begin()
            steps = Steps(self.story.steps, self.server)
            if self.story.steps:
                steps.happen(0)
        for player in self.players:
            player.start()
        for one in sorted(self.story.happens, key=lambda one: one.at):
            self.machine.later(one.at, functools.partial(self._happen, one))
        self._take_steps(steps)
        self.machine.run(self.story.lasts)
        self._end_of_faults()
        calm = self._come_to_rest(CALM_S)
        self.judge.settle()
        if calm:
            self._compare(self.story.ends, "in the end")
            self.violations += self._at_rest() or self._rested()

    def _at_rest(self) -> list[Violation]:
        return at_rest(self.story, self.server, self.machine.now_s, self.judge)

    def _rested(self) -> list[Violation]:
        """What is wrong once those have rested whose binds were refused: until then that excuses much."""
        until_s = rests_until_s(self.machine.now_s, self.judge)
        if until_s is None:
            return []
        self.trace.say("judge", f"waits until {until_s:.0f} s for those that rest after refused binds")
        self.machine.run(until_s)
        calm = self._come_to_rest(CALM_S)
        self.judge.settle()
        return self._at_rest() if calm else []

    def _take_steps(self, steps: Steps) -> None:
        """One step after the other, each when the one before has come to rest, or when the file says."""
        for number, step in enumerate(self.story.steps):
            if number:
                with self._acting("people"):
                    steps.happen(number)
            elif step.now is not None:
                self.machine.run(step.now)
            begun_s = self._calm_since_s = self.machine.now_s
            if step.says:
                self.trace.say("people", step.says)
            wait_s = steps.wait_s(number + 1)
            until_s = None if wait_s is None else begun_s + wait_s
            if self._come_to_rest(STEP_CALM_S if step.now is None else TIMED_CALM_S, until_s):
                self._judge_step(steps, number)
            if until_s is not None:
                self.machine.run(until_s)
        with self._acting("people"):
            steps.end()

    def _judge_step(self, steps: Steps, number: int) -> None:
        left_out = steps.left_out(number)
        self.trace.counts["steps left out" if left_out else "steps compared"] += 1
        faults = steps.judge(number)
        self.trace.say("judge", f"step {number + 1}: {left_out or ('not as expected' if faults else 'as expected')}")
        for fault in faults:
            self._broken("claim", f"step {number + 1}: {fault}")

    def _compare(self, expected: Expected, when: str) -> None:
        """Whether it is so now; what moved is counted from the beginning."""
        if expected == Expected():
            return
        faults = differs(expected, look(sender(self.server), self.moves.bound, self.moves.evicted))
        self.trace.counts["steps compared"] += 1
        self.trace.say("judge", f"{when}: {'not as expected' if faults else 'as expected'}")
        for fault in faults:
            self._broken("claim", f"{when}: {fault}")

    def _end_of_faults(self) -> None:
        self.trace.say("judge", "from now on nothing goes wrong")
        self.weather.end()
        self._away_until_s = 0.0
        for player in self.players:
            player.stays = True
            player.thaw()
            player.start()
        with self._acting("people"):
            self.people.calm()
        self._calm_since_s = self.machine.now_s

    def _come_to_rest(self, calm_s: float, until_s: float | None = None) -> bool:
        """Whether nothing changes any more for so long; or then, if that comes before."""
        end_s = self.machine.now_s + self.story.calm
        while self.machine.now_s < end_s:
            next_s = min(end_s, max(self._calm_since_s + calm_s, self.machine.now_s + 1.0))
            self.machine.run(next_s if until_s is None else min(next_s, until_s))
            quiet_s = self.machine.now_s - self._calm_since_s
            if quiet_s >= calm_s or (until_s is not None and self.machine.now_s >= until_s):
                return True
        self._broken("L6", f"no calm after {self.story.calm:.0f} s")
        return False

    # What happens.

    def _happen(self, one: Happening) -> None:
        self._compare(one.expect, f"at {one.at:g} s")
        if one.says:
            self.trace.say("people", one.says)
        with self._acting("people"):
            self.people.happen(one)
        self._to(one.crash, Player.crash)
        self._to(one.stop, Player.stop)
        self._to(one.start, Player.start)
        for number, seconds in one.pause.items():
            self._to([number], operator.methodcaller("pause", seconds))
        for number, seconds in one.jump.items():
            self._to([number], operator.methodcaller("jump", seconds))
        if one.cut:
            self._check_plurals(one)
            self._cut(one.cut)
        if one.compact:
            self.trace.say("server", "forgets its history")
            self.server.core.store.compact(self.server.core.store.revision)
        if one.away:
            self.trace.say("server", f"is away for {one.away:.0f} s")
            self._away_until_s = self.machine.now_s + one.away
            self._cut(["*"], broken=True)

    def _to(self, numbers: Iterable[int], do: Callable[[Player], None]) -> None:
        for number in numbers:
            if number < len(self.players):
                do(self.players[number])

    def _check_plurals(self, one: Happening) -> None:
        """In a file with a claim whoever names what is not there is told so."""
        known = {"*", *(kind.plural for kind in self.server.core.kinds)}
        strangers = [plural for plural in one.cut if plural not in known]
        if strangers and self.story.claim:
            where = f"happens[{self.story.happens.index(one)}].cut"
            raise BadScenario(
                f"{where}: no kind has the plural {strangers[0]}", 'write one such as pods, or "*" for all'
            )

    def _cut(self, plurals: list[str], broken: bool = False) -> None:
        self.trace.say("server", f"ends watches: {', '.join(plurals)}")
        for player in self.players:
            player.cut(plurals, broken)

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        def act() -> None:
            with self._acting("people"):
                do()

        self.machine.later(seconds, act)

    def _notice(self) -> None:
        """Kubelets, controllers and operators see what changed."""
        self._is_noticed = True
        now_s = BEGIN.timestamp() + self.machine.now_s
        with self._acting("kubelet"):
            due = self.running.step(now_s)
        with self._acting("people"):
            self.people.act()
        if due is not None:
            self.machine.later(max(due - now_s, NOTICE_S), self._look)

    def _look(self) -> None:
        if self._is_noticed:
            self._notice()

    def _changed(self, change: Change) -> None:
        """After each change of the store."""
        self.trace.change(change, self._who)
        self.judge.changed(change, self._who)
        self.moves.changed(change)
        if self._follow is not None:
            self._follow(self.machine.now_s, self._who, change)
        resource = change.key.resource
        if resource == _LEASES:
            spec = change.document.get("spec") or {}
            duration = float(spec.get("leaseDurationSeconds") or 0)
            self._lease = (spec.get("holderIdentity") or "", self.machine.now_s, duration)
        elif resource != _EVENTS:
            self._calm_since_s = self.machine.now_s
            if self._is_noticed:
                self._is_noticed = False
                self.machine.later(NOTICE_S, self._notice)

    # What the processes do.

    @property
    def is_away(self) -> bool:
        """Whether the server answers nobody."""
        return self.machine.now_s < self._away_until_s

    @property
    def revision(self) -> int:
        """Its version."""
        return self.server.core.store.revision

    def handle(self, who: str, request: exchange.Request) -> exchange.Answer:
        """A request of a process arrives."""
        self.trace.counts["requests"] += 1
        with self._acting(who):
            return self.server.handle(request)

    def watch(self, request: exchange.Request, wake: Callable[[], None]) -> Watch | exchange.Answer:
        """A process begins to watch."""
        return self.server.watch(request, wake)

    def _sent(self, number: int, request: Request, asked: Asked) -> None:
        if asked.is_write:
            self.trace.counts[f"sent {asked.point}"] += 1
            if asked.point != "lease":
                self._calm_since_s = self.machine.now_s
        with self._judging():
            self.judge.sent(number, request, self._leads(self.players[number]))

    def _answered(self, number: int, request: Request, status: int | None) -> None:
        with self._judging():
            self.judge.answered(number, request, status)

    def _planned(self, number: int, plan: Plan) -> None:
        self.trace.counts.update(deeds_of(plan))
        with self._judging():
            found = decide(plan)
            binds = [(one.namespace, one.pod) for one in found if isinstance(one, Bind)]
            evictions = [(one.namespace, one.pod) for one in found if isinstance(one, Evict)]
            self.judge.planned(number, binds, evictions, defects_of(plan))

    @contextmanager
    def _judging(self) -> Iterator[None]:
        """In the middle of a process, which must not take a mistake of the judge for one of its own."""
        try:
            yield
        except Exception as mistake:
            self.machine.mistaken(mistake)

    def _leads(self, player: Player) -> bool:
        """Whether the Lease, as the server has it, says that this one may write."""
        if not (self.story.elects or self.story.processes > 1):
            return True
        holder, renewed_s, duration_s = self._lease
        return holder == player.identity and self.machine.now_s < renewed_s + duration_s

    def _happened(self, who: str, what: str) -> None:
        """What a process does; its log is kept only for those who read, and must make no difference."""
        self.trace.counts["crash"] += what == "crashes"
        tell = self.trace.show if what.startswith("logs ") else self.trace.say
        tell(who, what)

    def _struck(self, name: str) -> None:
        self.trace.counts[f"fault {name}"] += 1
        self.trace.say("fault", name)

    def _broken(self, rule: str, says: str) -> None:
        self.violations.append(Violation(self.machine.now_s, rule, says))
        self.trace.say("judge", f"{rule}: {says}")

    @contextmanager
    def _acting(self, who: str) -> Iterator[None]:
        before, self._who = self._who, who
        try:
            yield
        finally:
            self._who = before


def _server(story: Story, clock: Callable[[], float]) -> Server:
    """A server with our kinds, the namespace of the Lease and the default queue: as installed."""
    chance = random.Random(f"{story.seed}/server")  # noqa: S311
    return Server(
        _installed().copy(),
        clock=clock,
        new_uid=lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        suffix=lambda: objects.suffix(chance.choice),
        checks=_NO_CHECKS if story.unchecked else CHECKS,
    )


@functools.cache
def _installed() -> Store:
    """What every story begins with: it is made once."""
    uids = (f"{number:08x}-0000-4000-8000-000000000000" for number in itertools.count())
    store = Store()
    server = Server(store, clock=BEGIN.timestamp, new_uid=lambda: next(uids), suffix=lambda: "none", checks=CHECKS)
    for definition in custom_resource_definitions():
        _post(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
    _post(server, "/api/v1/namespaces", space)
    unlimited = {name: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "memory", "gpu")}
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "default-queue"},
        "spec": {"resources": unlimited},
    }
    _post(server, "/apis/scheduling.run.ai/v2/queues", queue)
    return store


def _post(server: Server, path: str, document: object) -> None:
    headers = {"content-type": exchange.JSON}
    request = exchange.Request("POST", path, {}, headers, msgspec.json.encode(document))
    document_of(server.handle(request))
