"""The page: its files, and what it asks for over HTTP. It only reads; nothing that is asked here changes a cluster.

Whatever takes time is done in threads; the package says which does what.
"""

import asyncio
import gzip
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from muster import __version__
from muster.errors import ApiError, MusterError
from muster.serve.page.assets import Asset, assets
from muster.serve.page.gate import HEADERS, METHODS, Callers, Names, Refused, token_of
from muster.serve.page.history import History
from muster.serve.page.lanes import Lane
from muster.serve.page.streams import Message, Streams
from muster.serve.server import listening
from muster.serve.views.frame import Source
from muster.serve.views.gangs import Document
from muster.serve.views.scene import Scene
from muster.serve.views.seeing import Rights, Touched, answer_seen_by, foreign_in
from muster.telemetry import SILENT, Log, printable

MAX_BODY_BYTES = 1024 * 1024
_BODY_S = 15.0
# So many manifests at most arrive at a time: each may need 1 MiB.
MOST_ARRIVING = 8
# Smaller answers are not worth compressing.
_LEAST_PACKED = 4096
_NO_STORE = {"Cache-Control": "no-store"}
_LONGEST_TEXT = 2_000

T = TypeVar("T")
# What is done in the thread that answers questions.
Work = Callable[[], Document]


class Asking(Protocol):
    """Answers questions. Each method is called in the event loop and gives what is then done in a thread."""

    @property
    def home(self) -> str:
        """The namespace of what names none."""
        ...

    @property
    def scheduler(self) -> str:
        """The schedulerName of pods that are muster's."""
        ...

    def explanation(self, gang: str, scene: Scene, *, now: bool) -> Work:
        """Why a gang (`namespace/name`) of a scene stands as it does; `now`: it is the last scene."""
        ...

    def what_if(self, text: bytes) -> Work:
        """What if the objects of a manifest came too? The answer has `touches` (`seeing.Touched`), for us alone.

        The work raises MusterError when the manifest can't be read.
        """
        ...


class Shown(NamedTuple):
    """What is shown: the history, what it is of, and what to say while there is nothing yet."""

    history: History
    source: Source
    waiting: Callable[[], str] = lambda: "nothing was planned yet"


class Page:
    """The application behind the page. `app` is served; `note` is told of every cycle.

    `names` are set once it listens. `asked` is called whenever somebody looks at the page, and while they do.
    """

    def __init__(
        self,
        shown: Shown,
        names: Names,
        callers: Callers,
        asking: Asking | None = None,
        *,
        asked: Callable[[], None] = lambda: None,
        log: Log = SILENT,
        files: Mapping[str, Asset] | None = None,
        streams: Streams | None = None,
    ) -> None:
        self._shown, self.names, self._callers, self._asking = shown, names, callers, asking
        self._history, self._heard, self._log = shown.history, asked, log
        self._files = assets() if files is None else files
        self._streams = Streams() if streams is None else streams
        self._drawing: ThreadPoolExecutor | None = None
        # A what-if can be long; nobody who only asks why waits for it.
        self._explaining, self._assuming = Lane("explanations"), Lane("what-ifs")
        # Tells one process from the next: versions begin anew.
        self._run = secrets.token_hex(4)
        # The last messages to those who see everything, by the version before them.
        self._said: dict[tuple[int | None, int], Message] = {}
        self._arriving = 0

    def note(self, scene: Scene) -> None:
        """A cycle has been planned."""
        self._history.note(scene)
        self._streams.changed()

    def app(self) -> web.Application:
        """The application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guarded])
        app.router.add_get("/api/session", self._session)
        app.router.add_get("/api/frame", self._frame)
        app.router.add_get("/api/events", self._events)
        app.router.add_get("/api/timeline", self._timeline)
        app.router.add_get("/api/gangs/{namespace}/{name}/explanation", self._explanation)
        app.router.add_get("/api/decisions/{version}", self._decision)
        app.router.add_post("/api/what-if", self._what_if)
        app.router.add_get("/{path:.*}", self._file)
        app.on_response_prepare.append(_add_headers)
        app.on_startup.append(self._start)
        app.on_shutdown.append(self._shut)
        app.on_cleanup.append(self._clean)
        return app

    def listening(self, host: str, port: int) -> AbstractAsyncContextManager[int]:
        """Serves the page until the end of the block; gives the port. What is no HTTP is not logged: the library would
        write it out, with the token that may be in it.
        """
        return listening(self.app(), host, port, SILENT)

    async def _start(self, _: web.Application) -> None:
        # Another application may have ended before: on a port that was taken.
        self._streams.open()
        self._drawing = ThreadPoolExecutor(1, "page")
        self._explaining.open()
        self._assuming.open()

    async def _shut(self, _: web.Application) -> None:
        self._streams.close()

    async def _clean(self, _: web.Application) -> None:
        if self._drawing is not None:
            self._drawing.shutdown(wait=False, cancel_futures=True)
        self._explaining.close()
        self._assuming.close()

    # Around every request.

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The name, the origin and the method first; whatever goes wrong is an answer in words."""
        if request.method not in METHODS:
            return _problem(
                405, "the page can only be read", f"methods: {', '.join(METHODS)}", Allow=", ".join(METHODS)
            )
        refusal = self.names.refusal(request)
        if refusal:
            hint = "open it by the address that muster printed, or add the name to page.hosts of the configuration"
            return _problem(403, refusal, hint)
        try:
            return await handler(request)
        except Refused as error:
            return _problem(error.status, error.message, error.hint, **error.headers)
        except web.HTTPException as error:
            said = {413: "it is larger than 1 MiB", 404: "there is nothing of that name"}
            return _problem(error.status, said.get(error.status, error.reason.lower()), "")
        except ApiError as error:
            self._log.warning("the page could not ask the API server", error=error.message)
            # Who asks is not known, so no more is said.
            return _problem(503, "the API server could not say who you are", "muster's log says why")
        except MusterError as error:
            return _problem(400, error.message, error.hint)
        except TimeoutError:
            return _problem(504, "it took too long", "ask for less, or use the command line")
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            self._log.error("the page failed: this is a defect in muster", error=error, path=request.path)
            return _problem(500, "this is a defect in muster", "its log says more")

    async def _rights(self, request: web.Request, *more: str) -> Rights:
        """What the caller may see, of the namespaces that are kept and first of `more`. Raises Refused: nobody knows
        them, or they may see nothing of it.
        """
        token = token_of(request)
        known = self._history.namespaces()
        found = await self._callers.rights(token, known, more) if token else None
        if found is None:
            hint = (
                "sign in with a token of the cluster: kubectl create token NAME"
                if self._callers.mode == "cluster"
                else "open the address that muster printed when it started: it has the token in it"
            )
            raise Refused(401, "who are you?", hint, {"WWW-Authenticate": "Bearer"})
        # Whoever is known may wait for what is not there yet.
        self._heard()
        if known and found.namespaces == frozenset() and not found.nodes and not found.queues:
            raise _unseen(found)
        return found

    async def _draw(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._drawing, work, *args)

    # Answers.

    async def _session(self, _: web.Request) -> web.Response:
        found = {
            "mode": self._callers.mode,
            "source": self._shown.source._asdict(),
            "version": __version__,
            "run": self._run,
        }
        if self._asking is not None:
            # For an example of what can be asked.
            found |= {"namespace": self._asking.home, "schedulerName": self._asking.scheduler}
        return web.Response(body=msgspec.json.encode(found), content_type="application/json", headers=_NO_STORE)

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.get(request.path)
        if found is None:
            raise web.HTTPNotFound
        headers = {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if found.tag in request.headers.get("If-None-Match", "") or request.headers.get("If-None-Match") == "*":
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = found.content
        if found.packed and _takes_gzip(request):
            return web.Response(body=found.packed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=found.plain, headers=headers)

    async def _frame(self, request: web.Request) -> web.Response:
        rights = await self._rights(request)
        version = _version_in(request.query.get("version"))
        packed = _takes_gzip(request)
        return await self._draw(lambda: _as_json(self._seen(version, rights), packed))

    def _seen(self, version: int | None, rights: Rights) -> Document:
        """In the thread that draws."""
        frame = self._history.frame(version, rights)
        if frame is None:
            raise self._unkept(version)
        return frame

    def _unkept(self, version: int | None) -> "Refused":
        if version is None:
            return Refused(503, self._shown.waiting(), "it appears here as soon as it is there", {"Retry-After": "1"})
        return Refused(410, f"version {version} is not kept any more", "go back to now, and choose another moment")

    async def _timeline(self, request: web.Request) -> web.Response:
        rights = await self._rights(request)
        packed = _takes_gzip(request)
        return await self._draw(lambda: _as_json(self._history.timeline(rights), packed))

    async def _decision(self, request: web.Request) -> web.Response:
        rights = await self._rights(request)
        version, gang = _version_in(request.match_info["version"]), request.query.get("gang", "")

        def found() -> web.Response:
            decision = self._history.decision(version, gang, rights) if version is not None else None
            if decision is None:
                raise self._unkept(version)
            return _as_json(decision, packed=False)

        return await self._draw(found)

    async def _explanation(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        # Nobody is asked about what somebody makes up.
        rights = await self._rights(request, *({namespace} & self._history.namespaces()))
        version = _version_in(request.query.get("version"))
        scene = self._history.scene(version)
        if scene is None:
            raise self._unkept(version)
        visible = rights.sees(namespace) and _has(scene, namespace, name)
        if not visible or self._asking is None:
            raise Refused(404, f"there is no gang {_short(namespace)}/{_short(name)}", "it may have gone meanwhile")
        now = version in (None, self._history.version())
        work = self._asking.explanation(f"{namespace}/{name}", scene, now=now)
        found = await self._explaining.answer(work, lambda: _is_gone(request))
        return _as_json(answer_seen_by(found, self._history.hidden(rights, scene)), packed=False)

    async def _what_if(self, request: web.Request) -> web.Response:
        await self._rights(request)
        if self._asking is None:
            raise Refused(404, "nothing can be asked here", "use muster plan --add FILE")
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise Refused(415, "the manifest is compressed", "send it as it is")
        text = await self._arrived(request)
        if not text.strip():
            raise Refused(400, "the manifest is empty", "paste a PodGroup with its pods, or a workload with its pods")
        found = await self._assuming.answer(self._asking.what_if(text), lambda: _is_gone(request))
        touched = Touched(**found.pop("touches", {}))
        rights = await self._rights(request, *sorted(touched.namespaces))
        self._refuse_foreign(touched, rights)
        hidden, packed = self._history.hidden(rights), _takes_gzip(request)
        return await self._draw(lambda: _as_json(answer_seen_by(found, hidden), packed))

    async def _arrived(self, request: web.Request) -> bytes:
        """The manifest, in time; not too many at once. Raises Refused."""
        if self._arriving >= MOST_ARRIVING:
            raise Refused(429, "others are asking too", "try again in some seconds", {"Retry-After": "3"})
        self._arriving += 1
        try:
            return await asyncio.wait_for(request.read(), _BODY_S)
        finally:
            self._arriving -= 1

    def _refuse_foreign(self, touched: Touched, rights: Rights) -> None:
        """Raises Refused when a manifest speaks of what its sender may not see."""
        scene = self._history.scene()
        gangs = scene.plan.snapshot.gangs if scene is not None else ()
        foreign = foreign_in(touched, rights, {gang.queue for gang in gangs if rights.sees(gang.key[0])})
        if foreign is not None:
            raise Refused(403, *foreign)

    # Streams.

    async def _events(self, request: web.Request) -> web.StreamResponse:
        await self._rights(request)
        since, before = _place_in(request.headers.get("Last-Event-ID") or request.query.get("since"))
        if request.query.get("run", self._run) != self._run:
            # The version is that of another process.
            since = None
        if request.method == "HEAD":
            return web.Response(headers=_NO_STORE)
        if self._streams.is_full:
            raise Refused(503, "too many are watching", "close a tab of the page", {"Retry-After": "5"})

        async def ask(at: int | None) -> Message | None:
            nonlocal before
            try:
                now = await self._rights(request)
            except (Refused, ApiError) as error:
                # Not known any more, or nobody can say: nothing is shown on the strength of what was true once.
                raise PermissionError from error
            # Who may see more or less than what they have was made for is shown everything anew.
            message = await self._draw(self._message, at if now.digest == before else None, now)
            if message is not None:
                before = now.digest
            return message

        return await self._streams.serve(request, since, ask)

    def _message(self, at: int | None, rights: Rights) -> Message | None:
        """What is new to somebody who has version `at`, seen by the same rights. In the thread that draws."""
        version = self._history.version()
        if not version or at == version:
            return None
        said = self._said.get((at, version)) if rights.all else None
        if said is not None:
            return said
        delta = self._history.delta(at, rights) if at is not None else None
        if delta is not None:
            return self._kept(at, Message("delta", msgspec.json.encode(delta), delta["version"], rights.digest))
        if at is not None:
            # From there nobody can go on: it is the same for all who come from anywhere.
            return self._message(None, rights)
        frame = self._seen(None, rights)
        return self._kept(None, Message("frame", msgspec.json.encode(frame), frame["version"], rights.digest))

    def _kept(self, at: int | None, said: Message) -> Message:
        """For the next one who sees everything and has version `at`."""
        if not said.rights:
            self._said = {key: one for key, one in self._said.items() if key[1] == said.version}
            self._said[at, said.version] = said
        return said


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    # Which program and version answers is nobody's business.
    with suppress(KeyError):
        del response.headers["Server"]


def _problem(status: int, message: str, hint: str, **headers: str) -> web.Response:
    body = {"error": printable(message)[:_LONGEST_TEXT], "hint": printable(hint)[:_LONGEST_TEXT]}
    return web.Response(
        status=status,
        body=msgspec.json.encode(body),
        content_type="application/json",
        headers={**_NO_STORE, **headers},
    )


def _as_json(document: Document, packed: bool) -> web.Response:
    body = msgspec.json.encode(document)
    headers = {**_NO_STORE, "Vary": "Accept-Encoding"}
    if packed and len(body) >= _LEAST_PACKED:
        body = gzip.compress(body, 1, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, content_type="application/json", headers=headers)


def _takes_gzip(request: web.Request) -> bool:
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, quality = part.strip().partition(";")
        if name.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _version_in(text: str | None) -> int | None:
    """A version as it is written in an address; None: there is none. Raises Refused."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise Refused(400, "that is no version", "versions are whole numbers; /api/timeline lists those that are kept")
    return int(text)


def _place_in(text: str | None) -> tuple[int | None, str]:
    """Where a reader is: the version that they have, and the digest of the rights by which they saw it, as the `id` of
    an event has them. Raises Refused.
    """
    version, _, digest = (text or "").partition("-")
    return _version_in(version), digest


def _unseen(rights: Rights) -> "Refused":
    """Why somebody who is known sees nothing. Whether they might see gangs where there are none, nobody asked."""
    if rights.unasked:
        hint = f"{rights.unasked:,} namespaces are still to be asked about: it goes on by itself"
        return Refused(503, "what you may see is not known yet", hint, {"Retry-After": "1"})
    hint = (
        "it takes the verb list on podgroups.scheduling.run.ai in a namespace that has gangs, or in all: "
        "kubectl auth can-i list podgroups.scheduling.run.ai -n NAMESPACE"
    )
    return Refused(403, "there is no gang here now that you may see", hint)


def _is_gone(request: web.Request) -> bool:
    """Whether who asked has hung up. In any thread."""
    transport = request.transport
    return transport is None or transport.is_closing()


def _has(scene: Scene, namespace: str, name: str) -> bool:
    try:
        scene.plan.of((namespace, name))
    except KeyError:
        return False
    return True


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"
