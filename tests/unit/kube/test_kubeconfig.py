"""Kubeconfig files, good and hostile: one clear sentence for what is wrong, and only what is chosen must be right."""

import asyncio
import base64
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import UsageError
from muster.kube.connection import checked_server, in_cluster, proxy_for
from muster.kube.credentials import Files, Secret
from muster.kube.kubeconfig import connect, connection, load
from unit.kube.playing import VirtualClock, virtually
from unit.kube.test_transport import Authority


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("https_proxy", "http_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def config(cluster=None, user=None, context=None, **others):
    """A kubeconfig with one of each."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster if cluster is not None else {"server": "https://api:6443"}}],
        "users": [{"name": "u", "user": user if user is not None else {}}],
        "contexts": [{"name": "c", "context": context or {"cluster": "c", "user": "u"}}],
        **others,
    }


def written(folder, value, name="config"):
    path = folder / name
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value))
    return path


def opened(folder, value, context="", **options):
    return connect(written(folder, value), context, environ={}, terminal=False, **options)


def secret(found):
    return asyncio.run(found.credentials.secret())


def headers(found):
    return found.credentials.headers(secret(found))


def b64(data):
    return base64.b64encode(data).decode()


# What is found where


def test_the_named_file_comes_first_then_kubeconfig_then_home(tmp_path):
    named = written(tmp_path, config(cluster={"server": "https://named"}), "named")
    variable = written(tmp_path, config(cluster={"server": "https://variable"}), "variable")
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", config(cluster={"server": "https://home"}))
    environ = {"KUBECONFIG": str(variable)}
    assert connect(named, environ=environ, home=tmp_path).server == "https://named"
    assert connect(environ=environ, home=tmp_path).server == "https://variable"
    assert connect(environ={}, home=tmp_path).server == "https://home"


def test_several_files_are_one_and_the_first_wins(tmp_path):
    first = written(tmp_path, {"contexts": config()["contexts"], "current-context": "c"}, "first")
    second = written(tmp_path, config(cluster={"server": "https://second"}, user={"token": "t"}), "second")
    third = written(tmp_path, config(cluster={"server": "https://third"}, **{"current-context": "other"}), "third")
    environ = {"KUBECONFIG": os.pathsep.join(map(str, (tmp_path / "missing", first, "", second, third)))}
    found = connect(environ=environ)
    assert (found.server, found.context) == ("https://second", "c")
    assert headers(found) == [("Authorization", "Bearer t")]


def test_paths_in_a_file_are_relative_to_it(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "token").write_text("abc\n")
    assert headers(opened(folder, config(user={"tokenFile": "token"}))) == [("Authorization", "Bearer abc")]


def test_without_any_file_a_pod_uses_its_service_account_and_others_are_told_where_we_looked(tmp_path):
    with pytest.raises(UsageError, match=r"no kubeconfig: looked at .*\.kube/config") as raised:
        connect(environ={}, home=tmp_path)
    assert "KUBECONFIG" in raised.value.hint
    with pytest.raises(UsageError, match="serviceaccount"):
        connect(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}, home=tmp_path)


def test_a_context_can_be_named_and_carries_its_namespace(tmp_path):
    value = config()
    value["contexts"].append({"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}})
    found = opened(tmp_path, value, "other")
    assert (found.context, found.namespace) == ("other", "team-a")
    assert opened(tmp_path, value).namespace == "default"


def test_a_mistake_elsewhere_costs_nothing(tmp_path):
    value = config()
    value["users"] += [{"name": "broken", "user": 3}, {"user": {}}, "what"]
    value["clusters"].append({"name": "other", "cluster": {"server": 7}})
    assert opened(tmp_path, value).server == "https://api:6443"


# What is said when something is wrong


PEM = b64(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
WRONG = [
    ("no current", config(**{"current-context": ""}), "no current-context", "name a context: c"),
    ("no such context", config(**{"current-context": "cc"}), 'no context "cc"', "did you mean c?|known: c"),
    ("no such cluster", config(context={"cluster": "x", "user": "u"}), 'no cluster "x"', "known: c|did you mean"),
    ("no such user", config(context={"cluster": "c", "user": "x"}), 'no user "x"', "known: u|did you mean"),
    ("no server", config(cluster={}), 'cluster "c" has no server', "https://host:port"),
    ("bad server", config(cluster={"server": "ftp://x"}), "is not an address", "https://host:port"),
    ("bad port", config(cluster={"server": "https://x:99999"}), "is not an address", "https://host:port"),
    ("cluster is a list", config(cluster=[1]), 'cluster "c": ', "quotes"),
    ("token is a number", config(user={"token": 12345}), "token", "quotes"),
    ("token of two lines", config(user={"token": "a\nb"}), "no header", "one line"),
    ("missing token file", config(user={"tokenFile": "none"}), "can't read the token", "path"),
    ("missing authority", config(cluster={"server": "https://x", "certificate-authority": "no"}), "authority", "path"),
    (
        "authority is not base64",
        config(cluster={"server": "https://x", "certificate-authority-data": "%%%"}),
        "certificate-authority-data is not base64",
        "base64",
    ),
    (
        "authority is no certificate",
        config(cluster={"server": "https://x", "certificate-authority-data": PEM}),
        "not PEM",
        "kubeconfig",
    ),
    (
        "authority and insecure",
        config(cluster={"server": "https://x", "certificate-authority-data": PEM, "insecure-skip-tls-verify": True}),
        "insecure-skip-tls-verify",
        "remove",
    ),
    ("certificate without key", config(user={"client-certificate-data": PEM}), "no client-key", "together"),
    ("key without certificate", config(user={"client-key-data": PEM}), "no client-certificate", "together"),
    (
        "certificate is none",
        config(user={"client-certificate-data": PEM, "client-key-data": PEM}),
        "can't be used",
        "PEM",
    ),
    ("auth-provider", config(user={"auth-provider": {"name": "gcp"}}), 'auth-provider "gcp"', "use exec"),
    ("token and password", config(user={"token": "t", "username": "n"}), "token and a password", "keep one"),
    ("impersonation of nobody", config(user={"as-groups": ["g"]}), "without as", "as"),
    ("exec without command", config(user={"exec": {"apiVersion": "x"}}), "exec has no command", "program"),
    (
        "exec of an old version",
        config(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
        "v1alpha1.* is not supported",
        "client.authentication.k8s.io/v1",
    ),
    (
        "exec v1 without mode",
        config(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
        "interactiveMode is missing",
        "Never",
    ),
    (
        "exec needs a terminal",
        config(
            user={
                "exec": {
                    "command": "x",
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "interactiveMode": "Always",
                }
            }
        ),
        "needs a terminal",
        "run",
    ),
    ("socks", config(cluster={"server": "https://x", "proxy-url": "socks5://p"}), "proxy .* not supported", "http://"),
    ("two of one name", config(users=[{"name": "u", "user": {}}, {"name": "u"}]), 'two entries "u"', "keep one"),
    ("clusters is a map", config(clusters={"c": {}}), "clusters is not a list", "- name:"),
    ("not a mapping", "[1, 2]", "is not a kubeconfig but a list", "clusters"),
    ("text", "hello", "is not a kubeconfig", "clusters"),
    ("two documents", "a: 1\n---\nb: 2\n", "more than one document", "clusters"),
    ("bad yaml", "a: [", "not YAML", "brackets"),
    ("alias", "b: *x\n", "the alias .x repeats nothing", "write &x at a value above it"),
    ("tag", "a: !!python/object:os.system x\n", "tag", "plain data"),
    ("key twice", "a: 1\na: 2\n", "stands twice", "keep one"),
    ("deep", "a: " + "[" * 500, "deep", ""),
    ("large", "a: " + "x" * 5_000_000, "more than the limit", "another file"),
    ("nul", "a: \0", "not YAML", ""),
]


@pytest.mark.parametrize(("value", "message", "hint"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_said_with_the_file_and_how_to_mend_it(tmp_path, value, message, hint):
    with pytest.raises(UsageError, match=message) as raised:
        opened(tmp_path, value)
    assert str(tmp_path) in raised.value.message
    assert any(part in raised.value.hint for part in hint.split("|"))
    assert len(raised.value.message) < 600


def test_a_file_that_is_named_must_exist_and_be_a_file(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError, match="can't be read"):
            connect(path, environ={})


def test_an_empty_file_has_no_context(tmp_path):
    with pytest.raises(UsageError, match="no current-context"):
        opened(tmp_path, "")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "name",
                        "cluster",
                        "user",
                        "context",
                        "server",
                        "token",
                        "exec",
                        "command",
                        "args",
                        "env",
                        "tokenFile",
                        "as",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_file_makes_us_stumble(tmp_path_factory, value):
    """Whatever stands in a file: a connection, or a UsageError."""
    path = Path(tmp_path_factory.getbasetemp()) / "fuzzed"
    for plural, one in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        for whole in (config(**{plural: value}), config(**{one: value if isinstance(value, dict) else {}})):
            path.write_text(json.dumps(whole))
            try:
                connect(path, environ={}, terminal=False)
            except UsageError as error:
                said = error.message
            else:
                continue
            assert str(path) in said


# Who we are


def test_a_secret_never_prints_itself(tmp_path):
    found = opened(tmp_path, config(user={"token": "very-secret"}))
    assert "very-secret" not in repr((found, secret(found)))


def test_password_and_impersonation_become_headers(tmp_path):
    user = {"username": "n", "password": "p", "as": "alice", "as-groups": ["g1", "g2"], "as-user-extra": {"x": ["1"]}}
    assert headers(opened(tmp_path, config(user=user))) == [
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Extra-x", "1"),
        ("Authorization", "Basic " + b64(b"n:p")),
    ]


def test_null_is_as_if_absent(tmp_path):
    found = opened(tmp_path, config(user={"token": None, "exec": None}, cluster={"server": "api:1", "proxy-url": None}))
    assert found.server == "https://api:1"
    assert headers(found) == []


@pytest.mark.parametrize("form", ["data", "files", "mixed"])
def test_a_client_certificate_from_data_or_files(tmp_path, authority, form):
    pair = authority.pair("alice")
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    user = {
        "data": {"client-certificate-data": b64(pair.certificate), "client-key-data": b64(pair.key)},
        "files": {"client-certificate": "crt", "client-key": "key"},
        "mixed": {"client-certificate": "crt", "client-key-data": b64(pair.key), "token": "t"},
    }[form]
    found = opened(tmp_path, config(user=user))
    assert secret(found) == Secret("t" if form == "mixed" else "", pair)


def test_a_certificate_and_the_key_of_another_do_not_go_together(tmp_path, authority):
    one, other = authority.pair("one"), authority.pair("other")
    user = {"client-certificate-data": b64(one.certificate), "client-key-data": b64(other.key)}
    with pytest.raises(UsageError, match="can't be used") as raised:
        opened(tmp_path, config(user=user))
    assert "belong together" in raised.value.hint


def test_a_key_with_a_password_is_not_asked_for_it(tmp_path, authority):
    pair = authority.pair("alice")
    key = serialization.load_pem_private_key(pair.key, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    user = {"client-certificate-data": b64(pair.certificate), "client-key-data": b64(locked)}
    with pytest.raises(UsageError, match="can't be used") as raised:
        opened(tmp_path, config(user=user))
    assert "no password" in raised.value.hint


def test_the_cluster_part_becomes_tls_and_proxy(tmp_path, authority):
    cluster = {
        "server": "https://api:6443/",
        "certificate-authority-data": b64(authority.pem),
        "tls-server-name": "inner",
        "proxy-url": "http://proxy:3128",
    }
    found = opened(tmp_path, config(cluster=cluster))
    assert (found.server, found.proxy) == ("https://api:6443", "http://proxy:3128")
    assert (found.tls.authorities, found.tls.server_name) == (authority.pem, "inner")
    plain = opened(tmp_path, config(cluster={"server": "http://127.0.0.1:8001"}))
    assert plain.tls is None


def test_the_environment_names_a_proxy_for_others_only(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    monkeypatch.setenv("NO_PROXY", "inner.example,10.0.0.1")
    assert proxy_for("https://outer:443", "", "") == "http://proxy:1"
    assert proxy_for("https://inner.example:443", "", "") == ""
    assert proxy_for("https://10.0.0.1:443", "", "") == ""
    assert proxy_for("https://127.0.0.1:443", "", "") == ""
    assert proxy_for("https://inner.example", "http://given:1", "") == "http://given:1"


@pytest.mark.parametrize("server", ["https://[::1]:6443", "https://host/k8s/c", "http://host", "host:1"])
def test_addresses(server):
    assert checked_server(server + "/", "x") in (server, f"https://{server}")


@pytest.mark.parametrize("server", ["https://", "https://u:p@h", "https://h?x", "https://h#x", "https://a b", "x://h"])
def test_no_addresses(server):
    with pytest.raises(UsageError, match="not an address"):
        checked_server(server, "x")


# In a cluster


def test_a_pod_speaks_to_its_own_cluster(tmp_path, authority):
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "namespace").write_text("muster-system")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    async def run():
        found = in_cluster(environ, tmp_path, VirtualClock())
        assert (found.server, found.namespace) == ("https://[fd00::1]:443", "muster-system")
        tokens = [(await found.credentials.secret()).token]
        (tmp_path / "token").write_text("second")
        tokens.append((await found.credentials.secret()).token)
        await asyncio.sleep(60.0)
        tokens.append((await found.credentials.secret()).token)
        # The kubelet replaces the file: for a moment there is none.
        (tmp_path / "token").unlink()
        await asyncio.sleep(60.0)
        tokens.append((await found.credentials.secret()).token)
        (tmp_path / "token").write_text("third")
        await asyncio.sleep(1.0)
        tokens.append((await found.credentials.secret()).token)
        return tokens

    assert virtually(run()) == ["first", "first", "second", "second", "third"]


def test_a_refused_token_is_read_again_at_once(tmp_path):
    (tmp_path / "token").write_text("old")

    async def run():
        files = Files(VirtualClock(), token=tmp_path / "token")
        refused = await files.current()
        assert not await files.renewed(refused)
        (tmp_path / "token").write_text("new")
        assert await files.renewed(refused)
        return (await files.current()).token

    assert virtually(run()) == "new"


@pytest.mark.parametrize("text", ["", "\n", "a\nb", "\x00", "ä"])
def test_what_is_no_token_is_not_sent(tmp_path, text):
    (tmp_path / "token").write_text(text)
    with pytest.raises(UsageError, match="no token"):
        Files(VirtualClock(), token=tmp_path / "token").read()


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_SERVICE_HOST": "h"}, {"KUBERNETES_SERVICE_PORT": "1"}])
def test_outside_of_a_cluster_there_is_no_service_account(environ):
    with pytest.raises(UsageError, match="not in a cluster"):
        in_cluster(environ)


# Plugins


def plugin(folder, body, name="plugin"):
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    path.chmod(0o755)
    return path


def credential(version="v1", **status):
    return {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}


def exec_user(command, version="v1", **others):
    return {
        "exec": {
            "command": str(command),
            "apiVersion": f"client.authentication.k8s.io/{version}",
            "interactiveMode": "Never",
            **others,
        }
    }


def says(folder, answer):
    return plugin(folder, f"print({json.dumps(json.dumps(answer))})")


def test_a_plugin_is_told_of_the_cluster_and_gives_a_token(tmp_path, authority):
    body = """
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
open(sys.argv[1], "w").write(json.dumps([info, os.environ["EXTRA"], sys.stdin.read()]))
print(json.dumps({**info, "status": {"token": "from-plugin"}}))
"""
    plugin(tmp_path, body)
    told = tmp_path / "told"
    user = exec_user("./plugin", args=[str(told)], env=[{"name": "EXTRA", "value": "e"}], provideClusterInfo=True)
    cluster = {
        "server": "https://api:6443",
        "certificate-authority-data": b64(authority.pem),
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    assert headers(opened(tmp_path, config(cluster, user))) == [("Authorization", "Bearer from-plugin")]
    info, extra, stdin = json.loads(told.read_text())
    assert (extra, stdin) == ("e", "")
    assert info["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://api:6443",
            "certificate-authority-data": b64(authority.pem),
            "config": {"audience": "a"},
        },
    }


def test_a_plugin_runs_once_until_its_token_expires_or_is_refused(tmp_path):
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    runs = tmp_path / "runs"
    body = f"""
open({str(runs)!r}, "a").write("x")
token = str(len(open({str(runs)!r}).read()))
print(json.dumps({{**{credential("v1beta1")!r}, "status": {{"token": token, "expirationTimestamp": {soon!r}}}}}))
"""

    async def run():
        clock = VirtualClock()
        clock.wall = lambda: datetime.now(UTC) + timedelta(seconds=clock.skew_s)
        user = exec_user(plugin(tmp_path, body), "v1beta1", interactiveMode=None)
        found = opened(tmp_path, config(user=user), clock=clock).credentials
        first = await asyncio.gather(*(found.secret() for _ in range(5)))
        assert {one.token for one in first} == {"1"}
        refusals = await asyncio.gather(*(found.renewed(first[0]) for _ in range(3)))
        assert refusals == [True, True, True]
        assert await found.secret() == Secret("2")
        clock.skew_s = 3601.0
        return (await found.secret()).token

    assert asyncio.run(run()) == "3"


def test_a_plugin_may_give_a_certificate(tmp_path, authority):
    pair = authority.pair("alice")
    answer = credential(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())
    assert secret(opened(tmp_path, config(user=exec_user(says(tmp_path, answer))))) == Secret("", pair)


BROKEN = [
    ("fails", "sys.stderr.write('please \\x1b[1mlog in'); sys.exit(3)", "failed with 3: please  ?.1mlog in"),
    ("is silent", "", "did not print an ExecCredential: not JSON"),
    ("prints junk", "print('token=very-secret')", "not JSON"),
    ("prints a list", "print('[]')", "did not print an ExecCredential"),
    ("another version", f"print({json.dumps(json.dumps(credential('v1beta1')))})", "v1beta1"),
    ("no status", f"print({json.dumps(json.dumps(credential()))})", "neither a token nor a certificate"),
    ("half a pair", f"print({json.dumps(json.dumps(credential(clientCertificateData='x')))})", "only one of"),
    ("a token of two lines", f"print({json.dumps(json.dumps(credential(token='a' + chr(10) + 'b')))})", "plain text"),
    ("prints too much", "sys.stdout.write('x' * 3_000_000)", "printed more than"),
]


@pytest.mark.parametrize(("body", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_plugin_that_fails_is_named_with_the_file_and_the_user(tmp_path, body, message):
    found = opened(tmp_path, config(user=exec_user(plugin(tmp_path, body))))
    with pytest.raises(UsageError, match=message) as raised:
        secret(found)
    assert 'user "u"' in raised.value.message
    assert str(tmp_path / "plugin") in raised.value.message
    assert "very-secret" not in raised.value.message
    assert raised.value.message.isprintable()


def test_a_plugin_that_is_not_there_comes_with_its_install_hint(tmp_path):
    found = opened(tmp_path, config(user=exec_user("no-such-program-here", installHint="brew \x1b[31minstall it")))
    with pytest.raises(UsageError, match="can't start the plugin") as raised:
        secret(found)
    assert "install it" in raised.value.hint
    assert raised.value.hint.isprintable()


def test_a_plugin_that_hangs_is_ended_with_its_children(tmp_path):
    """And those who waited for one run hear of that one: it is not started by each of them."""
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\nsleep 60 &\necho $! >> {tmp_path}/children\nsleep 60\n")
    path.chmod(0o755)

    async def run():
        found = opened(tmp_path, config(user=exec_user(path))).credentials
        found._source._timeout_s = 0.05
        results = await asyncio.gather(*(found.secret() for _ in range(3)), return_exceptions=True)
        assert all("did not answer within" in str(result) for result in results)

    asyncio.run(run())
    children = (tmp_path / "children").read_text().split() if (tmp_path / "children").exists() else []
    assert len(children) <= 1
    for child in children:
        wait_for_its_end(child)


def wait_for_its_end(process):
    state = Path(f"/proc/{process}/stat")
    until = time.monotonic() + 20.0
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_cancelled_plugin_is_ended(tmp_path):
    started = tmp_path / "started"
    body = f"open({str(started)!r} + '.new', 'w').write(str(os.getpid()))\n"
    body += f"os.rename({str(started)!r} + '.new', {str(started)!r})\ntime.sleep(600)"

    async def run():
        found = opened(tmp_path, config(user=exec_user(plugin(tmp_path, body)))).credentials
        task = asyncio.create_task(found.secret())
        async with asyncio.timeout(30.0):
            while not started.exists():
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    wait_for_its_end(started.read_text())


def test_a_token_beside_a_plugin_spares_the_plugin(tmp_path):
    user = {**exec_user("no-such-program-here"), "token": "t"}
    assert headers(opened(tmp_path, config(user=user))) == [("Authorization", "Bearer t")]


def test_contexts_can_be_listed(tmp_path):
    found = load(written(tmp_path, config()))
    assert list(found.contexts) == ["c"]
    assert connection(found, "c").server == "https://api:6443"
