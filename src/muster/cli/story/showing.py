"""One demo from the first line to the last: the playground, the thread that tells the story on it, and how it ends."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from muster import __version__
from muster.cli.claim import short
from muster.cli.cluster import load
from muster.cli.explain import look_at
from muster.cli.installation import NAMESPACE
from muster.cli.options import Server
from muster.cli.plan import moment_of
from muster.cli.playground import Playground
from muster.cli.render import JSON, say_data
from muster.cli.showing import showing_of, where_of
from muster.cli.story.cast import Cast
from muster.cli.story.performing import Performance
from muster.cli.story.sender import Interrupted, Sender
from muster.cli.story.tale import Tale
from muster.cli.story.telling import Result, Teller
from muster.cli.story.witness import Witness
from muster.config import Config
from muster.controllers.process import End
from muster.decisions.explanation import Explanation
from muster.errors import MusterError, UsageError
from muster.plan.outcome import Plan
from muster.serve.views.frame import Source
from muster.telemetry import Log, Metrics

_HELD, _NOT_HELD, _INTERRUPTED, _DEFECT = 0, 1, 130, 70


class Wishes(NamedTuple):
    """What the command line says. `pause_s` is the time to read a chapter; `data`: the claims are printed as JSON."""

    tale: Tale
    kubeconfig: Path
    port: int
    once: bool
    pause_s: float
    data: bool


class Demo:
    """One demo, from the first line to the last."""

    def __init__(self, config: Config, wishes: Wishes, teller: Teller) -> None:
        self._config, self._wishes, self._teller = config, wishes, teller
        self._stop = asyncio.Event()
        self._trouble: MusterError | OSError | None = None
        self._is_over = False
        # Where the page is served, if it is: then it is named beside the kubeconfig.
        self._page = ""

    async def run(self) -> int:
        """Until the story has ended, or until somebody ends it; the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._heard, number)
        metrics, log = Metrics(__version__), Log(sys.stderr, level="error")
        wishes = self._wishes
        ground = Playground(self._config, kubeconfig=wishes.kubeconfig, port=wishes.port, log=log, metrics=metrics)
        async with AsyncExitStack() as stack:
            stack.enter_context(log.as_only())
            await stack.enter_async_context(ground)
            await self._show(stack, ground)
            cast, send, witness = Cast(wishes.tale, ground.server), Sender(ground.client.connection), Witness()
            performance = Performance(
                wishes.tale, cast, send, witness, self._teller, self._explain, pause_s=wishes.pause_s
            )
            with ThreadPoolExecutor(1, "story") as executor:
                telling = asyncio.get_running_loop().run_in_executor(executor, self._tell, performance, ground)
                beside = [
                    lambda: self._wait_for(telling),
                    lambda: witness.watch_pods(ground.client),
                    lambda: witness.watch_groups(ground.client),
                ]
                ended = await ground.run(self._stop, beside)
                performance.stop()
                await asyncio.wait([telling])
            cast.close()
            await send.close()
        self._teller.settle()
        if self._trouble is not None:
            raise self._trouble
        if ended.how is not End.STOPPED:
            return _DEFECT
        if not self._is_over:
            return _INTERRUPTED
        if wishes.data:
            say_data(document_of(wishes.tale, performance.results, self._teller.elapsed_s), JSON)
        return _HELD if performance.held else _NOT_HELD

    async def _show(self, stack: AsyncExitStack, ground: Playground) -> None:
        """The page, until the stack unwinds. A demo that ends by itself has none: nobody could look at it."""
        where = None if self._wishes.once else where_of(self._config.page, None, in_pod=False)
        if where is None:
            return
        flags = f"--kubeconfig {short(self._wishes.kubeconfig)}"
        showing = showing_of(ground.observed, self._config, Source("demo", "the cluster of the demo"), flags=flags)
        try:
            self._page = await stack.enter_async_context(showing.served(where))
        except UsageError:
            if where.exact:
                raise

    def _heard(self, number: signal.Signals) -> None:
        """The first signal asks for an end in order; the next one ends the process as if nobody had asked."""
        for one in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        self._stop.set()

    async def _wait_for(self, telling: "asyncio.Future[None]") -> None:
        """The process goes on after the story, unless it was only about that."""
        await asyncio.shield(telling)
        if self._wishes.once or self._trouble is not None:
            self._stop.set()
        await asyncio.Event().wait()

    # In a thread of its own.

    def _tell(self, performance: Performance, ground: Playground) -> None:
        try:
            performance.begin(ground.url, NAMESPACE)
            if self._page:
                self._teller.ready(f"the page, to watch it: {self._page}")
            performance.run()
            self._is_over = True
            self._farewell(performance)
        except Interrupted:
            pass
        except (MusterError, OSError) as error:
            # The world said no; or nobody reads what is told.
            self._trouble = error

    def _explain(self, name: str) -> tuple[Explanation, Plan]:
        """As `muster explain` does it, over the kubeconfig."""
        loaded = load((), self._config, server=Server(kubeconfig=str(self._wishes.kubeconfig)))
        return look_at(name, loaded, moment_of(None))

    def _farewell(self, performance: Performance) -> None:
        """What came of it, and what to do next."""
        tell, wishes = self._teller, self._wishes
        count, wrong = len(performance.results), sum(one.held is False for one in performance.results)
        tell.line()
        if performance.held:
            tell.line((f"All {count} claims are true", {"fg": "green", "bold": True}), f" · {tell.elapsed_s:.1f} s")
        else:
            tell.line((f"{wrong} of {count} claims are not true", {"fg": "red", "bold": True}))
        if wishes.once:
            tell.line("next: muster demo keeps the cluster running, for kubectl and muster explain")
            return
        tell.line()
        if self._page:
            tell.line(f"The page: {self._page}")
        tell.line("The cluster runs until Ctrl-C. In another terminal:")
        for command in (f"export KUBECONFIG={short(wishes.kubeconfig)}", *(wishes.tale.next or ("kubectl get pg",))):
            tell.line(("  ", {}), (command, {"bold": True}))


def document_of(tale: Tale, results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """The claims as data."""
    return {
        "story": tale.claim,
        "held": all(one.held for one in results),
        "seconds": round(seconds, 1),
        "claims": [
            {"chapter": one.chapter, "says": one.says, "held": one.held, "seen": one.seen, "differs": list(one.differs)}
            for one in results
        ],
    }
