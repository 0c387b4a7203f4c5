"""The server: a request goes in, an answer comes out. No sockets, no clock, no chance of its own.

`handle` answers everything but watches, `watch` gives those. What happens by itself in a real cluster (garbage
collection, the end of namespaces, new kinds that become served) happens in `settle`, which `handle` calls after each
write unless it is told not to.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from muster.embedded import defining, deleting, discovery, garbage, intake, openapi, pods, protobuf, reading, writing
from muster.embedded.admission import DEFAULT_NAMESPACES
from muster.embedded.apart import fails
from muster.embedded.core import DEFINITIONS, Core, Document, Options, Review, Target, bad_options, options_of, shown_as
from muster.embedded.exchange import (
    JSON,
    Answer,
    Request,
    Said,
    answer,
    bad_request,
    encode,
    failure,
    no_such_method,
    no_such_path,
    not_found,
    plain,
    warned,
)
from muster.embedded.kinds import Kinds, Resource
from muster.embedded.reading import Watch
from muster.embedded.refusals import Refused
from muster.embedded.scaling import change_scale, scale
from muster.embedded.schema import NO_CHECKS, Check
from muster.embedded.store import Store, Unwritten

MAX_BODY_BYTES = 3 * 1024 * 1024
HEALTH = ("healthz", "livez", "readyz")
# Paths that can only be read, and how long they get.
_READ_ONLY = {"api": 2, "apis": 3, "version": 1}


class Server:
    """An API server over one store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float],
        new_uid: Callable[[], str],
        suffix: Callable[[], str],
        checks: Mapping[str, Check] | None = None,
        reviews: Sequence[Review] = (),
        eager: bool = True,
    ) -> None:
        self.core = Core(store, Kinds(), clock, new_uid, suffix, checks or NO_CHECKS, reviews)
        self.address = "127.0.0.1"
        self._eager = eager
        self._defined: dict[str, str] = {}
        self._due = garbage.Due(self.core)
        self._bootstrap()

    def _bootstrap(self) -> None:
        """The namespaces that every cluster has; kinds that were defined before a restart."""
        self._define(garbage.Turn(self.core.store), [])  # what fails stays due; who settles first is told
        spaces = self.core.kinds.find("", "v1", "namespaces")
        assert spaces
        for name in DEFAULT_NAMESPACES:
            target = Target(spaces, name=name)
            if self.core.store.get(target.key) is None:
                document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                writing.create(self.core, target, document, Options(manager="embedded"))

    # What happens by itself.

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left that happens by itself."""
        return not self._due.any()

    def settle(self) -> None:
        """Let happen what happens by itself after writes: everything, or so much that others should have a turn.

        What fails stays due, and keeps nobody else waiting; the first failure is raised in the end.
        """
        defects: list[Exception] = []
        turn = garbage.Turn(self.core.store)
        for _ in range(garbage.MOST_ROUNDS):
            if self.is_settled or defects or turn.is_over():
                break
            if self._due.definitions:
                self._define(turn, defects)
            garbage.collect(self.core, self._due, turn, defects)
        if defects:
            raise defects[0]

    def _define(self, turn: garbage.Turn, defects: list[Exception]) -> None:
        """Serve the kinds that are defined now, and say so in their definitions."""
        self._due.definitions = False
        found = {one["metadata"]["name"]: one for one in self.core.store.list(DEFINITIONS).items}
        for name in [name for name in self._defined if name not in found]:
            if fails(self._forget, name, defects):
                self._due.definitions = True
        for definition in found.values():
            if fails(partial(self._serve, turn), definition, defects) or turn.is_over():
                self._due.definitions = True
        self._due.served_anew()

    def _forget(self, name: str) -> None:
        defining.end_definition(self.core, name)
        self.core.kinds.forget(name)
        del self._defined[name]

    def _serve(self, turn: garbage.Turn, definition: Document) -> None:
        name, version = definition["metadata"]["name"], definition["metadata"]["resourceVersion"]
        if self._defined.get(name) != version:
            self.core.kinds.define(definition, self.core.checks)
            self._defined[name] = defining.establish(self.core, definition)["metadata"]["resourceVersion"]
        if definition["metadata"].get("deletionTimestamp"):
            defining.finish(self.core, definition, turn)

    # Requests.

    def handle(self, request: Request) -> Answer:
        """Answer a request that is no watch."""
        try:
            if len(request.body) > MAX_BODY_BYTES:
                said = f"Request entity too large: limit is {MAX_BODY_BYTES}"
                raise Said(413, "RequestEntityTooLarge", said, {})
            found = self._static(request)
            if found is None:
                found = self._resources(request)
        except Refused as refused:
            return _refusal(refused)
        except Unwritten as lost:
            return _refusal(Said(500, "InternalError", f"Internal error occurred: {lost.message}"))
        except RecursionError:
            return _refusal(bad_request("the object is nested too deep"))
        if self._eager and request.method != "GET":
            # What was asked for is done. What should follow by itself and fails stays due; who settles next is told.
            with contextlib.suppress(Exception):
                self.settle()
        return found

    def watch(self, request: Request, wake: Callable[[], None] = lambda: None) -> Watch | Answer:
        """Start a watch, or the answer that says why not."""
        try:
            target = self._target(request)
            if target is None:
                raise no_such_path()
            reading.check_accepted(request, target.resource, listed=not target.name)
            return Watch(self.core, target, request, wake)
        except Refused as refused:
            return _refusal(refused)

    @staticmethod
    def is_watch(request: Request) -> bool:
        """Whether a request asks for a watch."""
        # A real server takes every word but these for a yes.
        return request.method == "GET" and request.query.get("watch", "0").lower() not in ("false", "0")

    # Paths.

    def _static(self, request: Request) -> Answer | None:
        """What is no resource: health, version, discovery, OpenAPI."""
        kinds, accept = self.core.kinds, request.headers.get("accept", "")
        parts = request.path.strip("/").split("/")
        if len(parts) > 3 and parts[0] in ("api", "apis") and "" not in parts:
            return None
        parts = [part for part in parts if part]
        if not parts:
            return answer(200, {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]})
        head = parts[0]
        if head in HEALTH:
            return plain(200, "ok")
        if len(parts) <= _READ_ONLY.get(head, 0) and request.method not in ("GET", "HEAD"):
            raise no_such_method()
        if parts == ["version"]:
            return answer(200, discovery.VERSION)
        if head == "openapi":
            return self._openapi("/".join(parts[1:]))
        if head not in ("api", "apis"):
            return plain(404, "404 page not found\n")
        found: Document | None
        if parts in (["api"], ["apis"]):
            if discovery.wants_aggregated(accept):
                return answer(200, discovery.aggregated(kinds, head == "api"), content_type=discovery.AGGREGATED)
            return answer(200, discovery.core_versions(self.address) if head == "api" else discovery.group_list(kinds))
        if head == "apis" and len(parts) == 2:
            found = discovery.group(kinds, parts[1])
        elif len(parts) == (2 if head == "api" else 3):
            found = discovery.resource_list(kinds, "" if head == "api" else parts[1], parts[-1])
        else:
            return None
        if found is None and head == "apis" and discovery.group(kinds, parts[1]):
            raise no_such_path()
        return answer(200, found) if found else plain(404, "404 page not found\n")

    def _openapi(self, path: str) -> Answer:
        if path == "v2":
            kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            return Answer(200, (("Content-Type", kind),), openapi.old_form())
        if path == "v3":
            return answer(200, openapi.index(self.core.kinds))
        found = openapi.document(self.core.kinds, path.removeprefix("v3/")) if path.startswith("v3/") else None
        return answer(200, found) if found else plain(404, "404 page not found\n")

    def _target(self, request: Request) -> Target | None:
        """What a path names; None if there is no such resource."""
        parts = request.path.strip("/").split("/")
        if parts[0] == "api":
            group, version, rest = "", parts[1], parts[2:]
        else:
            group, version, rest = parts[1], parts[2], parts[3:]
        namespace = ""
        if (
            rest[0] == "namespaces"
            and (len(rest) > 2 or group)
            and not (not group and len(rest) == 3 and rest[2] in ("status", "finalize"))
        ):
            if len(rest) < 3:
                return None
            namespace, rest = rest[1], rest[2:]
        resource = self.core.kinds.find(group, version, rest[0])
        if resource is None or len(rest) > 3 or "" in rest:
            return None
        if bool(namespace) and not resource.namespaced:
            return None
        name, subresource = (*rest[1:], "", "")[:2]
        if resource.namespaced and name and not namespace:
            return None
        return Target(resource, namespace, name, subresource)

    def _resources(self, request: Request) -> Answer:
        target = self._target(request)
        if target is None:
            group = request.path.strip("/").split("/")
            if group[0] == "apis" and discovery.group(self.core.kinds, group[1]) is None:
                return plain(404, "404 page not found\n")
            raise no_such_path()
        if not target.resource.deprecation:
            return self._served(target, request)
        try:
            found = self._served(target, request)
        except Refused as refused:
            found = _refusal(refused)
        return warned(found, [target.resource.deprecation])

    def _served(self, target: Target, request: Request) -> Answer:
        if target.subresource:
            return self._below(target, request)
        verb = _verb(request.method, bool(target.name))
        across = target.resource.namespaced and not target.namespace and verb in ("create", "deletecollection")
        if across and target.resource.custom:
            return plain(404, "404 page not found\n")
        if verb not in target.resource.verbs or across:
            raise no_such_method()
        reading.check_accepted(request, target.resource, listed=verb == "list")
        request = _in_json(request)
        if verb == "get":
            return answer(200, reading.get(self.core, target, request))
        if verb == "list":
            return answer(200, reading.listing(self.core, target, request))
        if verb == "create":
            return self._create(target, request)
        if verb in ("delete", "deletecollection"):
            return self._delete(target, request)
        return self._write(target, request)

    def _below(self, target: Target, request: Request) -> Answer:
        """A path below an object: its status, its binding, ..."""
        below = target.resource.subresources.get(target.subresource)
        if below is None:
            raise not_found(target.resource, target.name) if target.resource.custom else no_such_path()
        verb = "create" if request.method == "POST" else _verb(request.method, True)
        if verb not in below.verbs:
            raise no_such_method()
        reading.check_accepted(request, target.resource, listed=False)
        request = _in_json(request)
        if below.name in ("binding", "eviction"):
            document = self._body(request, target.resource, below.api_version, below.kind)
            act = pods.bind if below.name == "binding" else pods.evict
            return answer(201, act(self.core, target, document, options_of(request)))
        if below.name == "finalize":
            document = self._body(request, target.resource)
            return answer(200, deleting.finalize_namespace(self.core, target, document))
        if below.name == "scale":
            if verb == "get":
                return answer(200, scale(self.core, target))
            return answer(200, change_scale(self.core, target, request, options_of(request)))
        if verb == "get":
            return answer(200, reading.get(self.core, target, request))
        return self._write(target, request)

    def _body(self, request: Request, resource: Resource, api_version: str = "", kind: str = "") -> Document:
        value = intake.decode(request.body, request.headers.get("content-type", ""))
        return intake.expect(resource, value, api_version, kind)

    def _create(self, target: Target, request: Request) -> Answer:
        options = options_of(request)
        document = self._body(request, target.resource)
        if target.resource.kind == "SelfSubjectAccessReview":
            return answer(201, {**document, "status": {"allowed": True}})
        if target.resource.kind == "SelfSubjectReview":
            who = {"username": request.user, "groups": ["system:authenticated"]}
            metadata = {"creationTimestamp": self.core.now()}
            return answer(201, {**document, "metadata": metadata, "status": {"userInfo": who}})
        if target.resource.kind == "Binding":
            all_pods = self.core.kinds.find("", "v1", "pods")
            assert all_pods
            name = (document.get("metadata") or {}).get("name") or ""
            meant = Target(all_pods, target.namespace, name, "binding")
            return answer(201, pods.bind(self.core, meant, document, options))
        written = writing.create(self.core, target, document, options)
        return self._written(target, request, written)

    def _write(self, target: Target, request: Request) -> Answer:
        options = options_of(request)
        if request.method == "PUT":
            written = writing.replace(self.core, target, self._body(request, target.resource), options)
        else:
            kind = request.headers.get("content-type", "")
            if kind.startswith("application/apply-patch") and not request.query.get("fieldManager"):
                raise bad_options("fieldManager", "Required value: is required for apply patch")
            forced = "force" in request.query
            written = writing.patch(self.core, target, request.body, kind, options, forced)
        return self._written(target, request, written)

    def _written(self, target: Target, request: Request, written: writing.Written) -> Answer:
        shown = reading.one(self.core, target.resource, written.document, request)
        body = self.core.encoded(shown) if shown is written.document else b""
        return answer(written.status, shown, warnings=written.warnings, body=body)

    def _delete(self, target: Target, request: Request) -> Answer:
        body = intake.parse(request.body) if request.body.strip() else None
        options = deleting.deletion_of(body, request.query)._replace(user=request.user)
        if target.name:
            status, document = deleting.delete(self.core, target, options)
            orphans = target.resource.kind == "Job" and not options.policy
            return answer(status, document, warnings=[deleting.ORPHANS_JOB] if orphans else [])
        matches = reading.match_of(request, target.resource)
        space = target.namespace if target.resource.namespaced else ""
        items = self.core.store.list(target.resource.stored, space).items
        found = [one for one in items if matches is None or matches(one)]
        gone = []
        for one in found:
            place = target._replace(name=one["metadata"]["name"], namespace=one["metadata"].get("namespace") or "")
            deleting.delete(self.core, place, options)
            gone.append(shown_as(one, target.resource))
        meta = {"resourceVersion": str(self.core.store.revision)}
        if not target.resource.custom:
            gone = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in gone]
        listed = {"kind": target.resource.list_kind, "apiVersion": target.resource.api_version}
        return answer(200, {**listed, "metadata": meta, "items": gone})


def _refusal(refused: Refused) -> Answer:
    status = failure(refused)
    found = answer(refused.status, status, warnings=refused.warnings)
    seconds = status.get("details", {}).get("retryAfterSeconds")
    if not seconds and refused.status != 429:
        return found
    return found._replace(headers=(*found.headers, ("Retry-After", str(seconds or 1))))


def _in_json(request: Request) -> Request:
    """A request with its body in JSON. What is not served is 404 or 405 before its body is looked at."""
    if not request.body or not request.headers.get("content-type", "").startswith(protobuf.CONTENT_TYPE):
        return request
    body = encode(protobuf.decoded(request.body))
    return request._replace(body=body, headers={**request.headers, "content-type": JSON})


def _verb(method: str, named: bool) -> str:
    verbs = {"GET": ("list", "get"), "POST": ("create", ""), "PUT": ("", "update"), "PATCH": ("", "patch")}
    verbs["DELETE"] = ("deletecollection", "delete")
    return verbs.get(method, ("", ""))[named]


def document_of(found: Answer) -> Any:
    """The body of an answer; the refusal that it is, raised."""
    value = found.json()
    if found.status >= 400:
        raise Said(found.status, value.get("reason", ""), value.get("message", ""), value.get("details"))
    return value
