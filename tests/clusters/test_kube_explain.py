"""``keyferry kube exec-info``, ``contexts`` and ``explain``: what is told without a secret."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from support.api_server import ApiServer, Seen
from support.certificates import BEFORE, Authority, key_pem, make_certificate, make_key
from support.commands import run_in_process
from support.kube import API_VERSION, OTHER, TOKEN, Kube, credential
from support.kube_commands import exec_section, keyferry_kube, status_with
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def test_raw_is_what_the_plugin_gets(kube: Kube, server: ApiServer, authority: Authority) -> None:
    body = f'printf %s "$KUBERNETES_EXEC_INFO" > {kube.folder}/given; cat {kube.folder}/answer'
    plugin = write_executable(kube.folder / "told", f"#!/bin/sh\n{body}\n")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"b": 1.50, "a": "x"}}
    user = exec_section(kube, command=str(plugin), provideClusterInfo=True)
    kube.write(server.url, ca=authority.pem, user=user, cluster={"extensions": [extension]})
    keyferry_kube(kube, "raw", "/version")
    done = keyferry_kube(kube, "exec-info", "-o", "raw")
    assert done.stdout == (kube.folder / "given").read_text()
    assert (done.returncode, done.stderr) == (0, "")


def test_shows_names_of_variables_and_masks_secrets(kube: Kube, server: ApiServer) -> None:
    user = exec_section(
        kube,
        args=["get", "--client-secret", "pass-word", "--token=pass-word", "--region", "eu-west-1"],
        env=[{"name": "MY_VARIABLE", "value": "pass-word"}],
        provideClusterInfo=True,
    )
    extension = {
        "name": "client.authentication.k8s.io/exec",
        "extension": {"apiToken": "pass-word", "a": "b"},
    }
    proxy = {"proxy-url": "http://me:pass-word@proxy.example:3128"}
    kube.write(server.url, user=user, cluster={"extensions": [extension], **proxy})
    for output in ("table", "raw", "json", "yaml"):
        done = keyferry_kube(kube, "exec-info", "-o", output)
        assert done.returncode == 0
        assert "pass-word" not in done.stdout + done.stderr, output
    assert "MY_VARIABLE" in keyferry_kube(kube, "exec-info").stdout
    document = json.loads(keyferry_kube(kube, "exec-info", "-o", "json").stdout)
    assert document["args"] == [
        "get",
        "--client-secret",
        "********",
        "--token=********",
        "--region",
        "eu-west-1",
    ]
    assert document["execInfo"]["spec"]["cluster"]["config"] == {"apiToken": "********", "a": "b"}
    revealed = keyferry_kube(kube, "exec-info", "-o", "raw", "--reveal").stdout
    assert "me:pass-word@" in revealed
    assert kube.runs() == 0


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ({"token": "t"}, "no exec section"),
        ({"token": "t", "plugin": True}, "takes precedence over its exec section"),
    ],
    ids=["a token", "a token beside it"],
)
def test_without_a_plugin_says_why(kube: Kube, server: ApiServer, user: dict[str, object], why: str) -> None:
    section = exec_section(kube) if user.pop("plugin", False) else {}
    kube.write(server.url, user={**section, **user})
    done = keyferry_kube(kube, "exec-info")
    assert (done.returncode, done.stdout) == (1, "")
    assert why in done.stderr


# The users, by what is said of how they are authenticated.
MECHANISMS: dict[str, dict[str, object]] = {
    "exec aws-login": {
        "exec": {"apiVersion": API_VERSION, "command": "/bin/aws-login", "interactiveMode": "Never"}
    },
    "token": {"token": "s-word"},
    "token file": {"tokenFile": "/run/token"},
    "certificate": {"client-certificate": "/c.pem", "client-key": "/k.pem"},
    "basic": {"username": "me", "password": "s-word"},
    "token (ignored: exec aws)": {
        "token": "s-word",
        "exec": {"apiVersion": API_VERSION, "command": "aws", "interactiveMode": "Never"},
    },
    "none": {},
}


@pytest.fixture
def many(kube: Kube) -> Kube:
    """A kubeconfig with all of them; contexts and users have the names of their mechanisms."""
    document = {
        "current-context": "basic",
        "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in MECHANISMS],
        "clusters": [{"name": "c", "cluster": {"server": "https://c.example"}}],
        "users": [{"name": name, "user": user} for name, user in MECHANISMS.items()],
    }
    kube.path.write_text(json.dumps(document))
    return kube


def test_tells_how_each_user_is_authenticated(many: Kube) -> None:
    document = json.loads(keyferry_kube(many, "contexts", "-o", "json").stdout)
    assert document["kind"] == "ContextList"
    found = {context["name"]: context["mechanism"] for context in document["contexts"]}
    assert found == {name: name for name in MECHANISMS}
    assert [context["name"] for context in document["contexts"] if context["current"]] == ["basic"]
    assert {context["file"] for context in document["contexts"]} == {str(many.path)}


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_shows_no_secret(many: Kube, output: str) -> None:
    done = keyferry_kube(many, "contexts", "-o", output)
    assert done.returncode == 0
    assert "s-word" not in done.stdout


def test_marks_the_current_one(many: Kube) -> None:
    lines = keyferry_kube(many, "contexts").stdout.splitlines()
    assert lines[0].split() == ["CURRENT", "NAME", "CLUSTER", "SERVER", "USER", "MECHANISM", "FILE"]
    assert [line.split()[1] for line in lines if line.startswith("*")] == ["basic"]


def test_a_plain_server_takes_nobody(kube: Kube) -> None:
    kube.write("http://c.example", user={"token": "s-word"})
    done = keyferry_kube(kube, "contexts", "-o", "json")
    assert json.loads(done.stdout)["contexts"][0]["mechanism"] == "none (ignored: token)"


def test_several_files_are_merged(kube: Kube) -> None:
    other = kube.folder / "other"
    other.write_text(json.dumps({"contexts": [{"name": "z", "context": {"cluster": "x", "user": "y"}}]}))
    env = {"KUBECONFIG": f"{kube.path}:{other}:{kube.folder}/missing", "HOME": str(kube.folder)}
    document = json.loads(run_in_process("kube", "contexts", "-o", "json", cwd=None, **env).stdout)
    assert [(c["name"], c["file"]) for c in document["contexts"]] == [
        ("test", str(kube.path)),
        ("z", str(other)),
    ]


def test_none_at_all(kube: Kube) -> None:
    nowhere = run_in_process("kube", "contexts", HOME=str(kube.folder), KUBECONFIG="")
    assert (nowhere.returncode, nowhere.stdout) == (3, "")
    kube.path.write_text("")
    assert keyferry_kube(kube, "contexts").returncode == 1


def explain(kube: Kube, *words: str, **env: str) -> tuple[int, dict[str, str], dict[str, str]]:
    """The exit code, the traps and the outcome of each stage."""
    done = keyferry_kube(kube, "explain", "-o", "json", *words, **env)
    document = json.loads(done.stdout)
    assert document == yaml.safe_load(done.stdout)
    traps = {trap["outcome"]: trap["text"] for trap in document["traps"]}
    return done.returncode, traps, {reason["stage"]: reason["outcome"] for reason in document["reasons"]}


def test_tells_every_step(kube: Kube, server: ApiServer) -> None:
    done = keyferry_kube(kube, "explain", "-o", "wide")
    assert done.returncode == 0
    for text in (
        f"file {kube.path}: read",
        "context test: current context",
        f"cluster test: {server.url}",
        "user test: authenticated by exec plugin",
        f"found by its path: {kube.folder}/plugin",
        "there is no kuberc",
        "with a token; it has no expiry",
        f"identifies you as 'token-{len(TOKEN)}', in system:authenticated",
    ):
        assert text in done.stdout
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("prepare", "code", "words", "cure"),
    [
        pytest.param(
            lambda kube: kube.answer(), 4, "its plugin gave no credential", "log in again", id="plugin"
        ),
        pytest.param(
            lambda kube: kube.answer(credential(OTHER)),
            5,
            "its server responded 401",
            "log in again",
            id="server",
        ),
        pytest.param(
            lambda kube: kube.path.chmod(0o666),
            3,
            "keyferry refuses to use it",
            "make it yours alone",
            id="trust",
        ),
        pytest.param(
            lambda kube: (kube.folder / "plugin").unlink(),
            4,
            "its plugin gave no credential",
            "install the plugin",
            id="no program",
        ),
        pytest.param(
            lambda kube: kube.write("https://127.0.0.1:1"),
            6,
            "its server gave no answer",
            "check the network",
            id="no server",
        ),
    ],
)
def test_begins_with_the_verdict(
    kube: Kube, prepare: Callable[[Kube], object], code: int, words: str, cure: str
) -> None:
    """With its cause in the same sentence, and what to do below it."""
    prepare(kube)
    done = keyferry_kube(kube, "explain", COLUMNS="1000")
    lines = done.stdout.splitlines()
    assert done.returncode == code
    assert lines[0].startswith(f"✗ context 'test' does not work: {words}: ")
    assert lines[1:3] == ["", "WHAT TO DO"]
    assert cure in lines[3]


def test_begins_with_a_yes_or_with_what_was_not_tried(kube: Kube) -> None:
    done = keyferry_kube(kube, "explain").stdout
    assert done.startswith(f"✓ context 'test' works: you are 'token-{len(TOKEN)}'\n\nSTEPS\n")
    assert keyferry_kube(kube, "explain", "--no-run").stdout.startswith(
        "? context 'test' was not tried (--no-run)\n"
    )


def explained(kube: Kube, *words: str) -> dict[str, Any]:
    """The explanation as a document."""
    document = json.loads(keyferry_kube(kube, "explain", "-o", "json", *words).stdout)
    assert isinstance(document, dict)
    return document


def cures(document: dict[str, Any]) -> str:
    return " | ".join(cure["text"] for cure in document["cure"])


def use_plugin(kube: Kube, body: str) -> None:
    (kube.folder / "plugin").write_text(f"#!/bin/sh\ncd {kube.folder}\n{body}\n")


@pytest.mark.parametrize(
    ("say", "cause"),
    [
        (
            "echo 'SSO session expired; run acme login' >&2; exit 1",
            "SSO session expired; run acme login (it exited with status 1)",
        ),
        ("echo one >&2; echo two >&2; exit 1", "one | two (it exited with status 1)"),
        ("echo token=s3cr3t-Value >&2; exit 1", "token=******** (it exited with status 1)"),
        ("exit 7", "it exited with status 7 and gave no reason"),
        ("echo please log in >&2", "; it wrote: please log in"),
    ],
    ids=["a sentence", "two lines", "a secret", "nothing", "no answer"],
)
def test_the_reason_of_the_plugin_is_the_cause(kube: Kube, say: str, cause: str) -> None:
    use_plugin(kube, say)
    assert explained(kube)["cause"].endswith(cause)
    first = keyferry_kube(kube, "explain", COLUMNS="1000").stdout.splitlines()[0]
    assert first.startswith("✗ context 'test' does not work: its plugin gave no credential: ")
    assert first.endswith(cause)


def test_a_login_does_not_cure_a_plugin_that_hangs(kube: Kube) -> None:
    use_plugin(kube, "echo open the page >&2; sleep 60")
    # On a busy machine a shell may need longer to begin.
    for seconds in (1, 5, 20):
        document = explained(kube, "--timeout", str(seconds))
        if "it wrote" in document["cause"]:
            break
    assert document["cause"] == f"it did not finish within {seconds} s; it wrote: open the page"
    assert "log in" not in cures(document)
    assert (
        f"wait for input, for a browser, or for a server that does not answer? run it by hand: {kube.folder}/plugin"
        in (cures(document))
    )
    assert f"raise the time limit: --timeout {2 * seconds}" in cures(document)
    assert "if it asks you for something, set interactiveMode" in cures(document)


def test_a_plugin_that_could_ask_is_given_no_terminal(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    kube.write(server.url, ca=authority.pem, user=exec_section(kube, interactiveMode="IfAvailable"))
    use_plugin(kube, "exit 1")
    assert "to let it ask you something, use: keyferry kube whoami" in cures(explained(kube))


FORBIDDEN = (
    'selfsubjectreviews.authentication.k8s.io is forbidden: User "{user}" cannot create resource '
    '"selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope'
)
IMPERSONATION = (
    'users "root" is forbidden: User "jane" cannot impersonate resource "users" in API group "" '
    "at the cluster scope"
)


class Refusing(ApiServer):
    """A server that responds to each token with a status and the message of a Status."""

    refusals: dict[str, tuple[int, str]]

    def respond(self, seen: Seen) -> tuple[int, bytes] | None:
        """Return the token's refusal."""
        status, message = self.refusals[seen.token]
        return status, json.dumps({"kind": "Status", "message": message}).encode() if message else b"<html>"


@pytest.fixture
def refusing(kube: Kube, authority: Authority) -> Iterator[Refusing]:
    with Refusing(authority) as server:
        kube.write(server.url, ca=authority.pem)
        yield server


@pytest.mark.parametrize(
    ("status", "message", "verdict", "cause", "cure"),
    [
        (
            403,
            FORBIDDEN.format(user="jane"),
            "is authenticated, but not permitted: its server responded 403",
            "it knows you as 'jane', who may not create selfsubjectreviews.authentication.k8s.io",
            "bind 'jane' to a role (RBAC)",
        ),
        (
            403,
            IMPERSONATION,
            "is authenticated, but not permitted: its server responded 403",
            "it knows you as 'jane', who may not impersonate users",
            "bind 'jane' to a role (RBAC)",
        ),
        (
            403,
            FORBIDDEN.format(user="system:anonymous"),
            "does not work: its server responded 403",
            "the credential (exec plugin) did not reach it",
            "ends TLS",
        ),
        (
            403,
            "",
            "does not work: its server responded 403",
            "the server, or a proxy in front of it, does not permit the request: Forbidden",
            "ask whoever runs the server",
        ),
        (
            503,
            "",
            "does not work: its server responded 503",
            "the server, or a proxy in front of it, is out of order: Service Unavailable",
            "the credential is not the cause",
        ),
        (
            404,
            "",
            "does not work: its server responded 404",
            "there is no Kubernetes API at this address",
            "check the server of cluster 'test'",
        ),
    ],
    ids=["not permitted", "impersonation", "anonymous", "a proxy", "out of order", "another server"],
)
def test_only_a_401_is_about_the_validity_of_the_credential(
    kube: Kube, refusing: Refusing, status: int, message: str, verdict: str, cause: str, cure: str
) -> None:
    refusing.refusals = {TOKEN: (status, message)}
    document = explained(kube)
    assert document["verdict"] == {"outcome": "no", "text": f"context 'test' {verdict}"}
    assert document["cause"].startswith(cause)
    assert cure in cures(document)
    assert "valid" not in document["cause"]
    assert "log in" not in cures(document)


def test_the_last_of_two_responses_decides(kube: Kube, refusing: Refusing) -> None:
    """Each is told on its own, with the run of the plugin between them."""
    refusing.refusals = {OTHER: (401, "Unauthorized"), TOKEN: (403, FORBIDDEN.format(user="jane"))}
    kube.answer(credential(OTHER), credential(TOKEN))
    document = explained(kube)
    assert document["cause"].startswith("it knows you as 'jane'")
    told = [reason["text"] for reason in document["reasons"][-3:]]
    assert told[0] == "responded 401 to the credential of the plugin's first run"
    assert told[1] == "run again after the response 401, it answered with another credential"
    assert told[2].startswith("responded 403 to the credential of its second run: Forbidden: selfsubject")
    assert document["reasons"][-1]["outcome"] == "refused"


def test_a_second_run_that_fails_is_the_cause(kube: Kube) -> None:
    use_plugin(
        kube, "test -f once && echo the session is over >&2 && exit 1; touch once; echo hello >&2; cat answer"
    )
    kube.answer(credential(OTHER))
    document = explained(kube)
    assert document["verdict"]["text"] == "context 'test' does not work: its server responded 401"
    assert document["cause"].endswith(
        "run again, gave no other: the session is over (it exited with status 1)"
    )
    assert "hello" not in document["cause"] + document["reasons"][-1]["text"]
    assert [reason["outcome"] for reason in document["reasons"][-3:]] == ["refused", "failed", "stderr"]


def test_a_second_run_without_use_is_told(kube: Kube) -> None:
    kube.answer(credential(OTHER))
    document = explained(kube)
    assert document["cause"].endswith("; a second run of the plugin did not help")
    assert "it answered with the same credential" in document["reasons"][-2]["text"]


def test_a_plugin_that_fails_after_an_ended_credential_is_not_a_silent_server(kube: Kube) -> None:
    """Each request runs the plugin again."""
    use_plugin(kube, "test -f once && echo the session is over >&2 && exit 1; touch once; cat answer")
    kube.answer(status_with(token=TOKEN, expirationTimestamp="2020-01-01T00:00:00Z"))
    document = explained(kube)
    assert document["verdict"]["text"].endswith("its plugin gave no credential")
    assert document["cause"] == "the session is over (it exited with status 1)"


def test_fits_a_small_terminal(kube: Kube, refusing: Refusing) -> None:
    """Verdict, cause and what to do come first, whatever follows; -o wide has all of it."""
    refusing.refusals = {TOKEN: (403, FORBIDDEN.format(user="jane")), OTHER: (401, "Unauthorized")}
    section = exec_section(kube, interactiveMode="IfAvailable", env=[{"name": "PATH", "value": "/bin"}])
    kube.write(refusing.url, user=section, cluster={"insecure-skip-tls-verify": True})
    kube.answer(credential(OTHER), credential(TOKEN))
    lines = keyferry_kube(kube, "explain", COLUMNS="80").stdout.splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    assert lines.index("WHAT TO DO") < 6
    assert lines[-1] == "for every step: -o wide"
    assert "BEWARE" in keyferry_kube(kube, "explain", "-o", "wide").stdout.splitlines()


def test_no_run_runs_nothing(kube: Kube, server: ApiServer) -> None:
    code, _, stages = explain(kube, "--no-run")
    assert (code, kube.runs(), server.seen) == (0, 0, [])
    assert stages["plugin"] == "not-run"
    assert "server" not in stages


def test_tells_subject_and_expiry(kube: Kube, server: ApiServer, authority: Authority) -> None:
    pair = authority.client("carol")
    server.serials = {pair.serial}
    ends = datetime.now(UTC) + timedelta(minutes=14, seconds=58)
    status = {"clientCertificateData": pair.certificate, "clientKeyData": pair.key}
    kube.answer(status_with(**status, expirationTimestamp=ends.strftime("%Y-%m-%dT%H:%M:%SZ")))
    done = keyferry_kube(kube, "explain")
    assert done.returncode == 0
    assert "with a certificate; it ends in 14 min" in done.stdout
    assert "certificate of 'CN=carol'" in done.stdout
    assert "PRIVATE KEY" not in done.stdout


def test_an_older_server_is_asked_for_its_version(kube: Kube, server: ApiServer) -> None:
    server.script.extend([404, 404])
    code, _, stages = explain(kube)
    assert (code, stages["server"]) == (0, "answers")
    assert server.seen[-1].path == "/version"


@pytest.mark.parametrize(
    ("plugin", "cluster", "user", "trap"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, {}, {}, "v1alpha1"),
        ({"interactiveMode": "Always"}, {}, {}, "interactive-always"),
        ({"command": "./plugin"}, {}, {}, "relative-command"),
        ({"command": "no-such-plugin"}, {}, {}, "not-in-path"),
        ({"command": "sh", "env": [{"name": "PATH", "value": "/x"}]}, {}, {}, "configured-path"),
        ({"command": "~/plugin"}, {}, {}, "tilde"),
        ({}, {"server": "http://127.0.0.1:1"}, {}, "http-server"),
        ({}, {"insecure-skip-tls-verify": True}, {}, "insecure-tls"),
        ({}, {"proxy-url": "http://me:s-word@127.0.0.1:1"}, {}, "http-proxy"),
        ({}, {}, {"token": TOKEN}, "static-beside-exec"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_traps(
    kube: Kube, plugin: dict[str, object], cluster: dict[str, object], user: dict[str, object], trap: str
) -> None:
    kube.write("https://127.0.0.1:1", user={**exec_section(kube, **plugin), **user}, cluster=cluster)
    _, traps, _ = explain(kube, "--no-run")
    assert trap in traps
    assert "s-word" not in str(traps)


def test_several_of_a_name_in_path(kube: Kube, server: ApiServer) -> None:
    folders = [kube.folder / "a", kube.folder / "b"]
    for folder in folders:
        folder.mkdir()
        write_executable(folder / "kf-plugin", "#!/bin/sh\n")
    kube.write(server.url, user=exec_section(kube, command="kf-plugin"))
    _, traps, _ = explain(kube, "--no-run", PATH=":".join(map(str, folders)))
    assert str(folders[1] / "kf-plugin") in traps["several-in-path"]


def test_an_expired_certificate_is_kept(kube: Kube) -> None:
    key = make_key()
    ended = make_certificate(key, until=BEFORE + timedelta(days=1))
    kube.answer(status_with(token=TOKEN, clientCertificateData=ended, clientKeyData=key_pem(key)))
    _, traps, _ = explain(kube)
    assert "has no expiry, so it is used for the life of the process" in traps["expired-certificate"]


def test_a_credential_that_has_ended_already(kube: Kube) -> None:
    kube.answer(status_with(token=TOKEN, expirationTimestamp="2020-01-01T00:00:00Z"))
    _, traps, _ = explain(kube)
    assert "each request runs the plugin" in traps["expired-credential"]
    lines = keyferry_kube(kube, "explain").stdout.splitlines()
    assert lines[0].startswith(
        "✓ context 'test' works: you are 'token-"
    )  # this server does not look at the time
    assert any(line.lstrip().startswith("✗ answered after") for line in lines)


def test_an_ended_credential_is_the_cause_of_a_refusal(kube: Kube) -> None:
    kube.answer(status_with(token=OTHER, expirationTimestamp="2020-01-01T00:00:00Z"))
    document = json.loads(keyferry_kube(kube, "explain", "-o", "json").stdout)
    assert document["verdict"] == {
        "outcome": "no",
        "text": "context 'test' does not work: its server responded 401",
    }
    assert document["cause"].startswith("the plugin answers with a credential that ended ")
    assert document["cure"][0]["text"] == "log in again with the tool that the plugin belongs to"


def test_an_ended_credential_is_told_beside_a_server_that_is_gone(kube: Kube) -> None:
    kube.answer(status_with(token=TOKEN, expirationTimestamp="2020-01-01T00:00:00Z"))
    kube.write("https://127.0.0.1:1")
    document = json.loads(keyferry_kube(kube, "explain", "-o", "json").stdout)
    assert "connection refused; besides, the plugin answers with a credential that ended" in document["cause"]
    assert [each["text"].partition(" ")[0] for each in document["cure"]] == ["check", "log"]


def test_a_file_that_others_can_write(kube: Kube) -> None:
    kube.path.chmod(0o666)
    code, traps, _ = explain(kube, "--trust")
    assert code == 0
    assert "kubectl runs it nevertheless" in traps["untrusted-file"]


def test_a_broken_default_kuberc(kube: Kube) -> None:
    path = kube.folder / "home" / ".kube" / "kuberc"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    code, traps, stages = explain(kube)
    assert (code, stages["policy"]) == (3, "denied")
    assert "kubectl only prints a warning" in traps["broken-kuberc"]


def test_a_user_that_no_file_has(kube: Kube, server: ApiServer, authority: Authority) -> None:
    kube.write(server.url, ca=authority.pem)
    document = json.loads(kube.path.read_text())
    document["contexts"][0]["context"]["user"] = "ghost"
    kube.path.write_text(json.dumps(document))
    code, traps, _ = explain(kube)
    assert code == 5
    assert "requests are anonymous" in traps["unknown-user"]
