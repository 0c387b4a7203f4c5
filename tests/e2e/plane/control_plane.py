"""A control plane with a throw-away life: etcd and kube-apiserver on loopback, controllers and scheduler on demand."""

import http.client
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from e2e.plane import build
from e2e.plane.access import Answer, Requests, write_kubeconfig
from e2e.plane.certificates import Authority, write_key, write_public_key
from e2e.plane.process import LOOPBACK, Component, Failed, Keeper, Ready, free_port

# What makes pods of workloads, clears up behind them, and keeps budgets and roles true. No node controller: nodes are
# only written, and nothing would keep them ready; nor the pod collector, which deletes pods on vanished nodes.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
)
# The clients of controllers and scheduler hold themselves back to tens of requests a second unless told otherwise.
QPS, BURST = 5_000, 10_000
ISSUER = "https://kubernetes.default.svc"
TRIES = 3


class ControlPlane:
    """Use as a context manager: inside it everything serves, after it every process and file is gone.

    `controllers` is True for those above, or their names; `*_flags` are added to a program's command line. Logs lie
    in `logs` (or $MUSTER_TEST_LOGS) when given, and are else removed too.
    """

    etcd: Component
    apiserver: Component
    controller_manager: Component | None = None
    scheduler: Component | None = None

    def __init__(
        self,
        *,
        controllers: bool | Sequence[str] = False,
        scheduler: bool = False,
        apiserver_flags: Sequence[str] = (),
        controller_flags: Sequence[str] = (),
        scheduler_flags: Sequence[str] = (),
        logs: Path | None = None,
    ) -> None:
        self._controllers = CONTROLLERS if controllers is True else tuple(controllers or ())
        self._scheduler = scheduler
        self._apiserver_flags = apiserver_flags
        self._controller_flags = controller_flags
        self._scheduler_flags = scheduler_flags
        chosen = logs or os.environ.get("MUSTER_TEST_LOGS")
        self._logs = Path(chosen).resolve() if chosen else None
        self._components: list[Component] = []
        self._keeper: Keeper | None = None

    def __enter__(self) -> "ControlPlane":
        self.programs = build.build()
        for tries_left in reversed(range(TRIES)):
            try:
                self._start()
                return self
            except BaseException as why:
                self.close()
                # Somebody else took a port between our look and our server's.
                if not (isinstance(why, Failed) and tries_left and "address already in use" in str(why)):
                    raise
        raise AssertionError("the last try returns or raises")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process and remove the folder; may be called twice."""
        for component in reversed(self._components):
            component.kill()
        self._components.clear()
        if self._keeper:
            self._keeper.close()
        self._keeper = None

    # Ways in.

    def kubectl(
        self, *args: str | Path, stdin: str = "", check: bool = True, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the kubectl of this version, as the admin unless another kubeconfig is given."""
        # A home of its own: neither somebody's settings nor their discovery cache.
        known = {"KUBECONFIG": str(kubeconfig or self.admin_kubeconfig), "HOME": str(self.folder)}
        done = subprocess.run(
            [self.programs / "kubectl", *args],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **known},
            timeout=120,
        )
        if check and done.returncode:
            words = " ".join(str(arg) for arg in args)
            raise Failed(f"kubectl {words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Answer:
        """Send a request as the admin and see the status code."""
        return self._requests(method, path, body, content_type)

    def connection(self) -> http.client.HTTPSConnection:
        """A connection as the admin, for a watch."""
        return self._requests.connection()

    def service_account_token(self, namespace: str, name: str, lives_s: int = 3600) -> str:
        """A token that the API server signs for a service account, which is made when it is not there."""
        folder = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        made = self.request("POST", folder, {"metadata": {"name": name}})
        if made.status not in (201, 409):
            raise Failed(f"service account {namespace}/{name}: {made.body['message']}")
        answer = self.request("POST", f"{folder}/{name}/token", {"spec": {"expirationSeconds": lives_s}})
        if answer.status != 201:
            raise Failed(f"token of {namespace}/{name}: {answer.body['message']}")
        return str(answer.body["status"]["token"])

    def service_account_kubeconfig(self, namespace: str, name: str, lives_s: int = 3600) -> Path:
        """A kubeconfig that holds a fresh token of a service account: what it may do, its roles say."""
        token = self.service_account_token(namespace, name, lives_s)
        path = self.folder / f"{namespace}.{name}.kubeconfig"
        return write_kubeconfig(path, self.url, self.ca, {"token": token}, namespace)

    def user_kubeconfig(self, user: str, *groups: str) -> Path:
        """A kubeconfig with a client certificate for any user."""
        certificate, key = self._authority.client(f"user-{user.replace(':', '-')}", user, groups)
        entry = {"client-certificate": str(certificate), "client-key": str(key)}
        return write_kubeconfig(certificate.with_suffix(".kubeconfig"), self.url, self.ca, entry)

    # Faults; the components themselves can be stopped, killed, paused, resumed and restarted.

    def restart_apiserver(self, crash: bool = False) -> None:
        """End the API server, in order or by a crash, start it again on the same port, and wait until it serves."""
        self.apiserver.restart(crash)

    def start_controllers(self, *flags: str) -> Component:
        """Start kube-controller-manager; `wait_ready` of what is returned tells when it works."""
        assert not (self.controller_manager and self.controller_manager.pid), "the controllers run already"
        self.controller_manager = self._client(
            "kube-controller-manager",
            f"--controllers={','.join(self._controllers or CONTROLLERS)}",
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--kube-api-qps={QPS}",
            f"--kube-api-burst={BURST}",
            "--leader-elect=false",
            f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
            f"--root-ca-file={self.ca}",
            *self._controller_flags,
            *flags,
        )
        return self.controller_manager

    def start_scheduler(self, *flags: str, config: Mapping[str, object] | None = None) -> Component:
        """Start kube-scheduler; `config` is laid over its KubeSchedulerConfiguration."""
        assert not (self.scheduler and self.scheduler.pid), "kube-scheduler runs already"
        file = self.folder / "scheduler.json"
        whole = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.admin_kubeconfig), "qps": QPS, "burst": BURST},
            "leaderElection": {"leaderElect": False},
            **(config or {}),
        }
        file.write_text(json.dumps(whole))
        self.scheduler = self._client("kube-scheduler", f"--config={file}", *self._scheduler_flags, *flags)
        return self.scheduler

    # How it starts.

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="muster-plane-"))
        self._keeper = Keeper(self.folder)
        self.logs = self._logs or self.folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._authority = Authority(self.folder)
        self.ca = self._authority.ca
        self._server = self._authority.server("server")
        write_public_key(self.folder / "service-accounts.pub", write_key(self.folder / "service-accounts.key"))
        port = free_port()
        self.url = f"https://{LOOPBACK}:{port}"
        admin = self._authority.client("admin", "admin", ("system:masters",))
        self._requests = Requests(self.url, self.ca, admin)
        entry = {"client-certificate": str(admin[0]), "client-key": str(admin[1])}
        self.admin_kubeconfig = write_kubeconfig(self.folder / "admin.kubeconfig", self.url, self.ca, entry)
        etcd_port = free_port()
        etcd_url = f"http://{LOOPBACK}:{etcd_port}"
        self.etcd = self._component(self._etcd_command(etcd_url), lambda: _etcd_is_ok(etcd_port))
        self.apiserver = self._component(self._apiserver_command(etcd_url, port), self._serves)
        self.etcd.start()
        self.etcd.wait_ready()
        self.apiserver.start()
        self.apiserver.wait_ready()
        started = [self.start_controllers()] if self._controllers else []
        started += [self.start_scheduler()] if self._scheduler else []
        for component in started:
            component.wait_ready()

    def _etcd_command(self, url: str) -> list[str | Path]:
        peers = f"http://{LOOPBACK}:{free_port()}"
        return [
            self.programs / "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            # The data need not survive the machine, only the process.
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={8 << 30}",
            "--log-level=warn",
        ]

    def _apiserver_command(self, etcd_url: str, port: int) -> list[str | Path]:
        certificate, key = self._server
        return [
            self.programs / "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.ca}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self.folder / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={self.folder / 'service-accounts.key'}",
            "--authorization-mode=RBAC",
            # The first would refuse pods in namespaces without a service account; the second marks every new node as
            # not ready, and no kubelet is there to say otherwise.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            # A server that is asked to end closes its watches; without this it waits a minute for their clients.
            "--shutdown-watch-termination-grace-period=2s",
            *self._apiserver_flags,
        ]

    def _client(self, program: str, *flags: str) -> Component:
        """Start a program that talks to the API server, and serves its health and metrics on a port of its own."""
        port = free_port()
        certificate, key = self._server
        command: list[str | Path] = [
            self.programs / program,
            f"--authentication-kubeconfig={self.admin_kubeconfig}",
            f"--authorization-kubeconfig={self.admin_kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            *flags,
        ]
        health = Requests(f"https://{LOOPBACK}:{port}", self.ca)
        component = self._component(command, lambda: _is_ok(health, "/healthz"))
        component.start()
        return component

    def _component(self, command: list[str | Path], ready: Ready) -> Component:
        assert self._keeper
        log = self.logs / f"{Path(command[0]).name}.log"
        self._components.append(Component(command, log, self._keeper, ready))
        return self._components[-1]

    def _serves(self) -> bool:
        return _is_ok(self._requests, "/readyz") and _is_ok(self._requests, "/api/v1/namespaces/default")


def _is_ok(requests: Requests, path: str) -> bool:
    try:
        return requests("GET", path, wait_s=5).status == http.client.OK
    except OSError:
        return False


def _etcd_is_ok(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
