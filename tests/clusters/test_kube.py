"""``keyferry kube raw``, ``token`` and ``whoami`` as a user types them, and how they fail."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.api_server import ApiServer, running_proxy
from support.certificates import Authority
from support.commands import run_in_process
from support.kube import API_VERSION, TOKEN, Kube, credential, pair_fields
from support.kube_commands import exec_section, keyferry_kube, status_with
from support.terminal import Terminal, keyferry_on_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


def test_gives_the_body_and_sends_the_token(kube: Kube, server: ApiServer) -> None:
    done = keyferry_kube(kube, "raw", "/version?x=a%20b&y=ü z")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["path"] == "/version?x=a%20b&y=%C3%BC%20z"
    assert server.seen[0].authorization == f"Bearer {TOKEN}"


def test_a_path_counts_from_the_servers_own(kube: Kube, server: ApiServer, authority: Authority) -> None:
    kube.write(f"{server.url}/k8s/clusters/c-1/", ca=authority.pem)
    keyferry_kube(kube, "raw", "/version")
    assert server.seen[0].path == "/k8s/clusters/c-1/version"


def test_another_status_gives_the_body_a_message_and_exit_code_5(kube: Kube) -> None:
    done = keyferry_kube(kube, "raw", "/status/403")
    assert done.returncode == 5
    assert json.loads(done.stdout)["status"] == 403
    assert "the server responded 403 Forbidden" in done.stderr
    assert "keyferry kube whoami" in done.stderr


def test_a_401_renews_the_credential_once(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential("stale-token"), credential(TOKEN))
    done = keyferry_kube(kube, "raw", "/version")
    assert done.returncode == 0
    assert [seen.status for seen in server.seen] == [401, 200]
    assert kube.runs() == 2


def test_a_401_that_stays_is_the_answer(kube: Kube, server: ApiServer) -> None:
    kube.answer(credential("stale-token"))
    done = keyferry_kube(kube, "raw", "/version")
    assert done.returncode == 5
    assert len(server.seen) == 2
    assert "keyferry kube explain" in done.stderr


def test_a_redirect_to_another_server_is_not_followed(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    with ApiServer(authority) as other:
        server.redirect_to = f"{other.url}/version"
        done = keyferry_kube(kube, "raw", "/redirect")
        assert (done.returncode, other.seen) == (5, [])
    assert "302" in done.stderr
    assert "not followed" in done.stderr


@pytest.mark.parametrize("prefix", ["", "@"], ids=["another port", "a user name that looks like it"])
def test_a_redirect_that_looks_like_this_server_is_not_followed(
    kube: Kube, server: ApiServer, prefix: str
) -> None:
    server.redirect_to = f"{server.url}{prefix or '0'}evil.example/version"
    assert keyferry_kube(kube, "raw", "/redirect").returncode == 5
    assert len(server.seen) == 1


@pytest.mark.parametrize("place", ["/version", "{url}/version", "version"])
def test_a_redirect_on_the_same_server_is_followed(kube: Kube, server: ApiServer, place: str) -> None:
    server.redirect_to = place.format(url=server.url)
    done = keyferry_kube(kube, "raw", "/redirect")
    assert done.returncode == 0
    assert [seen.path for seen in server.seen] == ["/redirect", "/version"]


def test_a_redirect_in_a_circle_ends(kube: Kube, server: ApiServer) -> None:
    server.redirect_to = "/redirect"
    done = keyferry_kube(kube, "raw", "/redirect")
    assert done.returncode == 5
    assert "302" in done.stderr
    assert "bad file descriptor" not in done.stderr
    assert len(server.seen) < 10


def test_a_watch_is_passed_on_as_it_comes(kube: Kube, server: ApiServer) -> None:
    command = [sys.executable, "-m", "keyferry", "kube", "raw", "/watch?watch=true"]
    options = ["--kubeconfig", str(kube.path), "--timeout", "10"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in ("first", "second"):
            server.push(line)
            assert process.stdout.readline() == f"{line}\n"
        server.end_watch()
        assert process.wait(20) == 0


@pytest.mark.parametrize("path", ["version", "https://other.example/version", ""])
def test_a_path_that_is_none_is_wrong_usage(kube: Kube, path: str) -> None:
    done = keyferry_kube(kube, "raw", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not begin with '/'" in done.stderr


def test_a_line_break_in_a_path_adds_no_header(kube: Kube, server: ApiServer) -> None:
    keyferry_kube(kube, "raw", "/x HTTP/1.1\r\nX-Evil: 1\r\n\r\n")
    assert server.seen[0].path == "/x%20HTTP/1.1%0D%0AX-Evil:%201%0D%0A%0D%0A"
    assert server.seen[0].all("X-Evil") == []


def test_is_an_exec_credential_of_v1(kube: Kube) -> None:
    done = keyferry_kube(kube, "token", KUBERNETES_EXEC_INFO="")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(credential(TOKEN))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_has_the_version_that_is_asked_for(kube: Kube, version: str) -> None:
    asked = f"client.authentication.k8s.io/{version}"
    info = json.dumps({"kind": "ExecCredential", "apiVersion": asked, "spec": {"interactive": False}})
    done = keyferry_kube(kube, "token", KUBERNETES_EXEC_INFO=info)
    assert json.loads(done.stdout)["apiVersion"] == asked


@pytest.mark.parametrize(
    "info", ["{", '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v9"}']
)
def test_refuses_a_question_it_does_not_understand(kube: Kube, info: str) -> None:
    done = keyferry_kube(kube, "token", KUBERNETES_EXEC_INFO=info)
    assert (done.returncode, done.stdout, kube.runs()) == (3, "", 0)
    assert "KUBERNETES_EXEC_INFO: " in done.stderr


def test_has_certificate_key_and_expiry(kube: Kube, authority: Authority) -> None:
    """The expiry to the nanosecond: half a second less could be a credential that has ended."""
    pair = authority.client("carol")
    status = {
        "token": TOKEN,
        "clientCertificateData": pair.certificate,
        "clientKeyData": pair.key,
        "expirationTimestamp": "2099-01-01T00:00:00.500000001Z",
    }
    kube.answer(status_with(**status))
    assert json.loads(keyferry_kube(kube, "token").stdout)["status"] == status


def test_reveal_prints_the_bare_token(kube: Kube) -> None:
    assert keyferry_kube(kube, "token", "--reveal").stdout == f"{TOKEN}\n"


def test_reveal_of_a_certificate_is_a_no(kube: Kube, authority: Authority) -> None:
    kube.answer(credential(pair=authority.client()))
    done = keyferry_kube(kube, "token", "--reveal")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no token" in done.stderr


@pytest.mark.parametrize("means", ["token", "tokenFile", "certificate"])
def test_a_static_credential_is_carried_too(
    kube: Kube, server: ApiServer, authority: Authority, means: str
) -> None:
    path, pair = kube.folder / "token.txt", authority.client()
    path.write_text(f"{TOKEN}\n")
    user = {means: str(path) if means == "tokenFile" else TOKEN}
    kube.write(server.url, user=pair_fields(pair) if means == "certificate" else user)
    carried = {"token": TOKEN}
    if means == "certificate":
        carried = {"clientCertificateData": pair.certificate, "clientKeyData": pair.key}
    assert json.loads(keyferry_kube(kube, "token").stdout)["status"] == carried


@pytest.mark.parametrize(
    ("user", "why"),
    [
        pytest.param({"username": "u", "password": "pass-word"}, "basic auth", id="basic"),
        pytest.param({}, "no credential", id="none"),
    ],
)
def test_what_no_credential_can_hold_is_refused(
    kube: Kube, server: ApiServer, user: dict[str, object], why: str
) -> None:
    kube.write(server.url, user=user)
    done = keyferry_kube(kube, "token")
    assert (done.returncode, done.stdout) == (3, "")
    assert why in done.stderr
    assert "pass-word" not in done.stderr


def test_a_terminal_is_shown_nothing_unless_told_to(kube: Kube) -> None:
    code, shown = on_a_terminal(kube, "token")
    assert code == 2
    assert "--reveal" in shown
    assert TOKEN not in shown
    assert kube.runs() == 0
    code, shown = on_a_terminal(kube, "token", "--reveal")
    assert (code, shown.strip()) == (0, TOKEN)


def test_can_be_the_plugin_of_another_kubeconfig(kube: Kube, server: ApiServer, authority: Authority) -> None:
    outer = Kube(kube.folder / "outer")
    outer.folder.mkdir()
    outer.write(server.url, ca=authority.pem, user=keyferry_user(kube))
    assert keyferry_kube(outer, "raw", "/version").returncode == 0
    assert server.seen[0].token == TOKEN


def test_a_context_that_is_its_own_plugin_ends(kube: Kube, server: ApiServer) -> None:
    kube.write(server.url, user=keyferry_user(kube))
    done = keyferry_kube(kube, "token")
    assert done.returncode == 4
    assert "runs 'keyferry kube token' for the same user again" in done.stderr


def keyferry_user(kube: Kube) -> dict[str, object]:
    """A user whose plugin is keyferry itself, asking for the user of *kube*."""
    return {
        "exec": {
            "apiVersion": API_VERSION,
            "command": sys.executable,
            "args": ["-m", "keyferry", "kube", "token", "--kubeconfig", str(kube.path)],
            "interactiveMode": "Never",
        }
    }


def on_a_terminal(kube: Kube, *words: str) -> tuple[int, str]:
    """Run a subcommand on a terminal; its status, and what it shows there."""
    return keyferry_on_terminal("kube", *words, "--kubeconfig", str(kube.path))


def test_tells_user_and_groups(kube: Kube) -> None:
    done = keyferry_kube(kube, "whoami")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["ATTRIBUTE", "VALUE"]
    assert ["user", f"token-{len(TOKEN)}"] in rows
    assert ["group", "system:authenticated"] in rows


def test_json_and_yaml_say_the_same(kube: Kube, server: ApiServer) -> None:
    as_json = json.loads(keyferry_kube(kube, "whoami", "-o", "json").stdout)
    assert as_json == yaml.safe_load(keyferry_kube(kube, "whoami", "-o", "yaml").stdout)
    assert as_json["kind"] == "ClusterIdentity"
    assert as_json["server"] == server.url
    assert as_json["groups"] == ["system:authenticated"]


def test_a_stranger_is_told_so(kube: Kube) -> None:
    kube.answer(credential("stale-token"))
    done = keyferry_kube(kube, "whoami")
    assert (done.returncode, done.stdout) == (5, "")
    assert "the server responded 401" in done.stderr


def test_an_older_server_is_said_to_be_one(kube: Kube, server: ApiServer) -> None:
    server.always = 404
    done = keyferry_kube(kube, "whoami")
    assert done.returncode == 5
    assert [seen.path.split("/")[3] for seen in server.seen] == ["v1", "v1beta1"]
    assert "the server does not support SelfSubjectReview, which requires Kubernetes 1.27" in done.stderr


def write_kuberc(kube: Kube, text: str) -> str:
    path = kube.folder / "kuberc"
    path.write_text(f"apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n{text}\n")
    return str(path)


def test_a_plugin_that_fails(kube: Kube) -> None:
    kube.answer()
    done = keyferry_kube(kube, "raw", "/version")
    assert (done.returncode, done.stdout) == (4, "")
    assert "exited with status 1" in done.stderr


def test_a_plugin_that_is_missing(kube: Kube, server: ApiServer) -> None:
    kube.write(server.url, user=exec_section(kube, command="no-such-plugin", installHint="get it\033[1m"))
    done = keyferry_kube(kube, "whoami")
    assert done.returncode == 4
    assert "not found in PATH; to install it: get itU+001B[1m" in done.stderr


def test_a_plugin_that_hangs(kube: Kube) -> None:
    kube.wait(30)
    done = keyferry_kube(kube, "token", "--timeout", "0.3")
    assert done.returncode == 124
    assert "did not finish within 0.3 s" in done.stderr


def test_a_plugin_that_the_policy_denies(kube: Kube) -> None:
    kuberc = write_kuberc(kube, "credentialPluginPolicy: DenyAll")
    done = keyferry_kube(kube, "raw", "/version", KUBERC=kuberc)
    assert (done.returncode, kube.runs()) == (3, 0)
    assert "may not run: the policy is DenyAll" in done.stderr


def test_a_kubeconfig_that_others_can_write(kube: Kube) -> None:
    kube.path.chmod(0o666)
    done = keyferry_kube(kube, "raw", "/version")
    assert (done.returncode, kube.runs()) == (3, 0)
    assert "--trust" in done.stderr
    assert keyferry_kube(kube, "raw", "/version", "--trust").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("raw", "/version", "--context", "nope"),
        ("token", "--user", "nope"),
        ("whoami", "--cluster", "nope"),
        ("exec-info", "--context", "nope"),
        ("explain", "--context", "nope"),
    ],
    ids=lambda words: words[0],
)
def test_a_name_that_leads_nowhere(kube: Kube, words: tuple[str, ...]) -> None:
    done = keyferry_kube(kube, *words)
    assert (done.returncode, done.stdout) == (3, "")
    assert "'nope' does not exist (existing: 'test')" in done.stderr
    assert "kubelet" not in done.stderr


@pytest.mark.parametrize("command", ["token", "whoami", "raw", "exec-info", "contexts", "explain"])
def test_a_kubeconfig_that_is_not_there(tmp_path: Path, command: str) -> None:
    words = ("raw", "/x") if command == "raw" else (command,)
    done = run_in_process("kube", *words, "--kubeconfig", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no such file" in done.stderr


@pytest.mark.parametrize("command", ["token", "whoami", "raw", "explain"])
@pytest.mark.parametrize(
    "answer",
    [
        "SECRET-{TOKEN}",
        '{"apiVersion": "SECRET-TOKEN"}',
        status_with(token="SECRET-TOKEN\r\nX-Evil: 1"),
        status_with(clientCertificateData="SECRET-TOKEN", clientKeyData="SECRET-TOKEN"),
    ],
    ids=["no document", "no version", "a line break", "no certificate"],
)
def test_no_answer_of_a_plugin_is_quoted(kube: Kube, command: str, answer: str) -> None:
    kube.answer(answer)
    done = keyferry_kube(kube, *(("raw", "/x") if command == "raw" else (command,)))
    assert done.returncode in (4, 5)
    assert "SECRET-TOKEN" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("nope",), ("token", "--nope"), ("raw",), ("token", "--timeout", "0")])
def test_wrong_usage(words: tuple[str, ...]) -> None:
    done = run_in_process("kube", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--help'" in done.stderr


def plain_kubeconfig(folder: Path, server: str = "https://127.0.0.1:9", **user: str) -> Path:
    """A kubeconfig of one user."""
    kube = Kube(folder)
    kube.write(server, user=user)
    return kube.path


PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        ("junk", "junk", "client-certificate contains no certificate in PEM"),
        (PEM, "junk", "client-key contains no private key in PEM"),
        (PEM, PEM.replace("CERTIFICATE", "PRIVATE KEY"), ""),
    ],
    ids=["certificate", "key", "damaged"],
)
def test_a_client_certificate_that_is_none_says_so(
    certificate: str, key: str, why: str, tmp_path: Path
) -> None:
    """OpenSSL has no word for it."""
    data = (base64.b64encode(text.encode()).decode() for text in (certificate, key))
    names = ("client-certificate-data", "client-key-data")
    path = plain_kubeconfig(tmp_path, **dict(zip(names, data, strict=True)))
    done = run_in_process("kube", "whoami", "--kubeconfig", str(path))
    assert done.returncode == 3
    assert f"the client certificate and key cannot be used: {why}" in done.stderr
    assert "unknown" not in done.stderr


@pytest.mark.parametrize("names", [(), ("one",), ("one", "two")])
def test_without_any_kubeconfig_the_files_are_named(names: tuple[str, ...], tmp_path: Path) -> None:
    """Those of KUBECONFIG, else the default; and what to give instead."""
    paths = [str(tmp_path / name) for name in names]
    done = run_in_process("kube", "whoami", HOME=str(tmp_path), KUBECONFIG=":".join(paths))
    looked_for = " and ".join(paths) or f"{tmp_path}/.kube/config"
    assert done.returncode == 3
    assert f"found no kubeconfig: {looked_for} do" in done.stderr
    assert "give one with --kubeconfig PATH or in KUBECONFIG" in done.stderr
    assert "keyferry lint" not in done.stderr
    assert "kube contexts" not in done.stderr


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("# later\n", "is empty", id="only comments"),
        pytest.param('{"auths": {"reg.io": {"auth": "dTpwYXNz"}}}', "is a docker config", id="docker config"),
        pytest.param("apiVersion: v1\nkind: Config\n", "has no clusters, contexts and users", id="skeleton"),
    ],
)
@pytest.mark.parametrize("words", [("token",), ("explain",), ("token", "--context", "prod")])
def test_a_kubeconfig_without_content_is_named(
    words: tuple[str, ...], content: str, wrong: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    done = run_in_process("kube", *words, "--kubeconfig", str(path))
    assert done.returncode == 3
    assert done.stderr == (
        f"keyferry: found no kubeconfig: {path} {wrong}; give one with --kubeconfig PATH or in KUBECONFIG\n"
    )


def test_a_device_without_content_is_no_kubeconfig() -> None:
    done = run_in_process("kube", "token", KUBECONFIG="/dev/null")
    assert done.returncode == 3
    assert "found no kubeconfig: /dev/null is empty" in done.stderr


def test_without_a_context_in_the_file_no_list_of_contexts_is_advised(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("users: [{name: me, user: {token: t}}]\n")
    done = run_in_process("kube", "token", "--kubeconfig", "config", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr == "keyferry: current-context is not set and no context is given (existing: none)\n"


@pytest.mark.parametrize("words", [("kube", "explain", "--context", "prod"), ("explain", "pod/web")])
def test_without_any_kubeconfig_no_list_of_contexts_is_advised(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """There is none to list, whether or not a context is given."""
    done = run_in_process(*words, HOME=str(tmp_path), KUBECONFIG="")
    assert done.returncode == 3
    assert "give one with --kubeconfig PATH or in KUBECONFIG" in done.stderr
    assert "kube contexts" not in done.stderr


def test_a_missing_cluster_is_reported_with_its_context_and_file(kube: Kube, server: ApiServer) -> None:
    kube.write(server.url)
    document = json.loads(kube.path.read_text())
    document["contexts"][0]["context"]["cluster"] = "gone"
    kube.path.write_text(json.dumps(document))
    done = keyferry_kube(kube, "explain")
    assert done.returncode == 3
    place = f"keyferry: {kube.path}:1:"
    assert done.stderr.startswith(place)
    words = "contexts[0].context.cluster: context 'test' names the cluster 'gone', which does not exist"
    assert f"{words} (existing: 'test')" in done.stderr
    assert f"to check the file, try: keyferry lint {kube.path}" in done.stderr


def test_a_broken_kuberc_is_called_kuberc(tmp_path: Path) -> None:
    """It is no kubeconfig, and KUBERC=off leaves it out."""
    kuberc = tmp_path / "preferences"
    kuberc.write_text("apiVersion: [")
    path = plain_kubeconfig(tmp_path, token="t")
    done = run_in_process("kube", "whoami", "--kubeconfig", str(path), KUBERC=str(kuberc))
    assert done.returncode == 3
    assert "this file is kubectl's kuberc" in done.stderr
    assert f"KUBERC=off ignores it; to check the file, try: keyferry lint {kuberc}\n" in done.stderr


@pytest.mark.parametrize("server", ["https://", "http://"])
def test_a_server_without_a_host_says_so(server: str, tmp_path: Path) -> None:
    """Nothing is looked up."""
    path = plain_kubeconfig(tmp_path, server, token="t")
    done = run_in_process("kube", "raw", "/version", "--kubeconfig", str(path))
    assert done.returncode == 3
    assert f"the server {server!r} has no host, expected a URL such as 'https://HOST:6443'" in done.stderr


@pytest.mark.parametrize(
    "words", [("raw", "/version"), ("whoami",), ("explain",)], ids=lambda words: words[0]
)
def test_a_proxy_of_the_command_line_takes_the_place_of_the_clusters(
    kube: Kube, server: ApiServer, authority: Authority, words: tuple[str, ...]
) -> None:
    kube.write(server.url, ca=authority.pem, cluster={"proxy-url": "http://127.0.0.1:1"})
    with running_proxy() as proxy:
        done = keyferry_kube(kube, *words, "--proxy-url", f"http://jo:proxy-pass@{proxy.address}")
        assert done.returncode == 0, done.stderr
        assert proxy.told[0].startswith(f"CONNECT 127.0.0.1:{server.port} ")
    assert "proxy-pass" not in done.stdout + done.stderr


def test_a_proxy_of_the_command_line_is_told_to_the_plugin(kube: Kube, server: ApiServer) -> None:
    kube.write(server.url, user=exec_section(kube, provideClusterInfo=True))
    done = keyferry_kube(kube, "exec-info", "-o", "json", "--proxy-url", "http://proxy.example:3128")
    cluster = json.loads(done.stdout)["execInfo"]["spec"]["cluster"]
    assert cluster["proxy-url"] == "http://proxy.example:3128"


@pytest.mark.parametrize(
    "url", ["socks5://jo:proxy-pass@p:1080", "p:3128", "http://jo:proxy-pass@", "http://jo:pro/xy-pass@p"]
)
@pytest.mark.parametrize("words", [("raw", "/"), ("token",), ("exec-info",)], ids=lambda words: words[0])
def test_a_proxy_that_cannot_be_used_is_wrong_usage(kube: Kube, words: tuple[str, ...], url: str) -> None:
    """Its password is not repeated, and no plugin is run."""
    done = keyferry_kube(kube, *words, "--proxy-url", url)
    assert done.returncode == 2
    assert "--proxy-url: is not a URL of the form http://" in done.stderr
    assert "xy-pass" not in done.stderr
    assert kube.runs() == 0


def test_a_hint_repeats_the_proxy_without_its_password(kube: Kube, server: ApiServer) -> None:
    with running_proxy() as proxy:
        option = ("--proxy-url", f"http://jo:proxy-pass@{proxy.address}")
        refused = keyferry_kube(kube, "raw", "/status/403", *option)
        kube.answer()
        failed = keyferry_kube(kube, "raw", "/version", *option)
    for done in (refused, failed):
        assert f"--proxy-url http://***@{proxy.address}" in done.stderr
        assert "proxy-pass" not in done.stderr
    assert len(server.seen) == 1


def test_a_prompt_reaches_the_terminal_while_the_plugin_waits(kube: Kube) -> None:
    """Standard error is the terminal's own for a plugin that may prompt, as kubectl runs it."""
    section = exec_section(kube, interactiveMode="IfAvailable")
    document = json.loads(kube.path.read_text())
    document["users"][0]["user"] = section
    kube.path.write_text(json.dumps(document))
    body = "test -t 2 && printf 'your code: ' >&2 && read code && echo got-$code >&2; exit 1"
    (kube.folder / "plugin").write_text(f"#!/bin/sh\n{body}\n")
    command = (sys.executable, "-m", "keyferry", "kube", "raw", "/version", "--kubeconfig", str(kube.path))
    with Terminal(command, env={"KUBERC": "off"}) as terminal:
        terminal.read_until("your code: ")
        terminal.type("4711\n")
        assert "got-4711" in terminal.finish().raw
