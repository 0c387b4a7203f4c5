"""The page of a cluster, on a real API server, with only the rights that are shipped: everybody sees what they may."""

import json
import urllib.error
import urllib.request

import pytest

from e2e.plane import ControlPlane, gate, wait_until
from e2e.plane.process import free_port
from e2e.plane.stage import NAMESPACE, create, group, install, node, pod, running

gate.require()

TEAMS = ("team-a", "team-b")


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    with ControlPlane() as found:
        install(found, "--set", "page.enabled=always")
        create(found, *(node(f"node-{number}") for number in range(2)))
        for team in TEAMS:
            found.kubectl("create", "namespace", team)
            create(found, group("gang", team, minMember=1), pod("pod", "gang", namespace=team))
        yield found


@pytest.fixture(scope="module")
def port(plane, tmp_path_factory):
    """Where a muster with just its own rights serves the page."""
    account = plane.service_account_kubeconfig(NAMESPACE, "muster")
    number = free_port()
    where = ("--page", f"127.0.0.1:{number}", "--set", "page.signIn=cluster")
    with running(account, tmp_path_factory.mktemp("page"), "--no-leader-election", *where) as process:
        token = token_of(plane, "boss", "cluster-admin")
        wait_until(lambda: len(ask(number, token)[1].get("gangs", ())) == 2, 30, "both gangs")
        yield number
        assert token not in process.log()


def token_of(plane, name, cluster_role="", team="default", resource=""):
    """A token of a new service account with some right."""
    plane.kubectl("create", "serviceaccount", name, "-n", team)
    account = f"--serviceaccount={team}:{name}"
    if cluster_role:
        plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={cluster_role}", account)
    if resource:
        plane.kubectl("create", "role", name, "-n", team, "--verb=list", f"--resource={resource}")
        plane.kubectl("create", "rolebinding", name, "-n", team, f"--role={name}", account)
    return plane.kubectl("create", "token", name, "-n", team).stdout.strip()


def ask(port, token, path="/api/frame", data=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers, data=data)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 (our own page)
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    except OSError:
        return 0, {}


def test_who_may_do_everything_sees_everything(plane, port):
    status, session = ask(port, "", "/api/session")
    assert (status, session["mode"]) == (200, "cluster")
    _, frame = ask(port, token_of(plane, "chief", "cluster-admin"))
    assert set(frame["gangs"]) == {f"{team}/gang" for team in TEAMS}
    assert len(frame["nodes"]) == 2


def test_who_may_list_gangs_in_a_namespace_sees_those(plane, port):
    token = token_of(plane, "anna", team="team-a", resource="podgroups.scheduling.run.ai")
    status, frame = ask(port, token)
    assert (status, set(frame["gangs"]), frame["nodes"], frame["queues"]) == (200, {"team-a/gang"}, {}, {})
    assert frame["mayNotSee"] == ["nodes", "queues"]
    status, why = ask(port, token, "/api/gangs/team-a/gang/explanation")
    assert (status, why["queue"]["shares"]) == (200, [])
    # With which flags muster was started is nobody's business.
    assert why["command"] == "muster explain team-a/gang"
    assert "node-0" not in json.dumps([frame, why])
    assert ask(port, token, "/api/gangs/team-b/gang/explanation")[0] == 404
    for team, expected in (("team-a", 200), ("team-b", 403)):
        text = json.dumps(group("new", team, minMember=1)).encode()
        assert ask(port, token, "/api/what-if", text)[0] == expected
    # Not even a pod without a gang, or a node, of what others have.
    for other in (pod("pod", "", namespace="team-b"), node("node-0")):
        assert ask(port, token, "/api/what-if", json.dumps(other).encode())[0] == 403


def test_who_had_a_gang_is_not_thrown_out_with_it(plane, port):
    """A namespace whose last gang went is still theirs."""
    plane.kubectl("create", "namespace", "team-c")
    create(plane, group("gang", "team-c", minMember=1))
    token = token_of(plane, "carla", team="team-c", resource="podgroups.scheduling.run.ai")
    wait_until(lambda: set(ask(port, token)[1].get("gangs", ())) == {"team-c/gang"}, 30, "the gang")
    plane.kubectl("delete", "podgroup", "gang", "-n", "team-c")
    wait_until(lambda: ask(port, token)[1].get("gangs") == {}, 30, "an empty page")
    assert ask(port, token)[0] == 200
    assert "team-c/gang" in ask(port, token, "/api/timeline")[1]["lanes"]


def test_who_may_nothing_sees_nothing(plane, port):
    assert ask(port, token_of(plane, "otto"))[0] == 403
    assert ask(port, "")[0] == 401
    assert ask(port, "eyJhbGciOiJub25lIn0.e30.")[0] == 401


def test_muster_asks_with_rights_that_come_with_the_page_alone(plane):
    """Without the page it has no business to know who anybody is."""
    for resource in ("tokenreviews", "subjectaccessreviews"):
        found = plane.kubectl("get", "clusterrole", "muster-page", "-o", "json").stdout
        assert resource in found
        others = plane.kubectl("get", "clusterrole", "muster-scheduler", "-o", "json").stdout
        assert resource not in others
