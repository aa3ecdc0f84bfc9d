"""kubectl's global flags: they mean for a command what they mean for kubectl."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from keyferry import load_cluster
from keyferry.cli.options import parse_request_timeout
from support.api_server import ApiServer
from support.certificates import Authority
from support.commands import run_in_process
from support.kube import OTHER, TOKEN, Kube
from support.kube_commands import keyferry_kube

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

NOWHERE = "https://127.0.0.1:9"


def test_as_makes_requests_as_somebody_else(kube: Kube, server: ApiServer) -> None:
    who = ("--as", "alice", "--as-group", "dev", "--as-group=ops", "--as-uid", "7")
    assert keyferry_kube(kube, "raw", "/version", *who).returncode == 0
    assert server.seen[0].token == TOKEN
    assert server.seen[0].all("Impersonate-User") == ["alice"]
    assert server.seen[0].all("Impersonate-Group") == ["dev", "ops"]
    assert server.seen[0].all("Impersonate-Uid") == ["7"]


@pytest.mark.parametrize("flag", ["--as-group", "--as-uid"])
def test_a_group_or_uid_without_a_user_is_refused_as_by_kubectl(
    kube: Kube, server: ApiServer, flag: str
) -> None:
    done = keyferry_kube(kube, "raw", "/version", flag, "x")
    assert (done.returncode, server.seen, kube.runs()) == (3, [], 0)
    assert f"{flag} requires --as, since user 'test' has no 'as'" in done.stderr
    assert str(kube.path) not in done.stderr


def test_a_header_in_the_name_of_a_user_is_not_sent(kube: Kube, server: ApiServer) -> None:
    done = keyferry_kube(kube, "raw", "/version", "--as", "alice\r\nX-Evil: 1")
    assert (done.returncode, server.seen) == (3, [])


def test_a_token_is_used_and_no_plugin_is_run(kube: Kube, server: ApiServer) -> None:
    server.tokens = {OTHER}
    assert keyferry_kube(kube, "raw", "/version", "--token", OTHER).returncode == 0
    assert ([seen.token for seen in server.seen], kube.runs()) == ([OTHER], 0)


@pytest.mark.parametrize("words", [("whoami",), ("raw", "/version"), ("explain",), ("explain", "-o", "json")])
def test_a_token_that_is_refused_is_in_no_output(kube: Kube, words: tuple[str, ...]) -> None:
    done = keyferry_kube(kube, *words, "--token", OTHER)
    assert done.returncode == 5
    assert OTHER not in done.stdout + done.stderr


def test_a_command_to_paste_has_a_placeholder_for_the_token(kube: Kube) -> None:
    done = keyferry_kube(kube, "raw", "/version", "--token", OTHER, "--as", "alice")
    assert "keyferry kube explain" in done.stderr
    assert "--token TOKEN --as alice" in done.stderr


def test_a_server_takes_the_place_of_the_clusters(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    """And the name that the cluster's certificate must have is not that of another server."""
    kube.write(NOWHERE, ca=authority.pem, cluster={"tls-server-name": "elsewhere.example"})
    assert keyferry_kube(kube, "raw", "/version", "-s", server.url).returncode == 0
    named = ("--server", server.url, "--tls-server-name", "elsewhere.example")
    refused = keyferry_kube(kube, "raw", "/version", *named)
    assert refused.returncode != 0
    assert "elsewhere.example" in refused.stderr
    assert len(server.seen) == 1


def test_an_authority_takes_the_place_of_the_clusters(
    kube: Kube, server: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    kube.write(server.url, ca=Authority().pem)
    assert keyferry_kube(kube, "raw", "/version").returncode != 0
    bundle = tmp_path / "ca.pem"
    bundle.write_text(authority.pem)
    assert keyferry_kube(kube, "raw", "/version", "--certificate-authority", str(bundle)).returncode == 0
    assert keyferry_kube(kube, "raw", "/version", "--insecure-skip-tls-verify").returncode == 0
    assert len(server.seen) == 2


def test_flags_need_no_kubeconfig(server: ApiServer, authority: Authority, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(authority.pem)
    flags = ("--server", server.url, "--certificate-authority", str(bundle), "--token", TOKEN)
    home = {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    done = run_in_process("kube", "raw", "/version", *flags, cwd=None, **home)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.seen[0].token == TOKEN


def test_commands_about_pods_take_the_same_flags(kube: Kube, server: ApiServer) -> None:
    server.tokens = {OTHER}
    flags = ("--kubeconfig", str(kube.path), "--token", OTHER, "--as", "alice", "--request-timeout", "30s")
    done = run_in_process("explain", "pod/web", "-n", "shop", *flags, cwd=None)
    assert server.seen[0].path == "/api/v1/namespaces/shop/pods/web"
    assert (server.seen[0].token, server.seen[0].all("Impersonate-User")) == (OTHER, ["alice"])
    assert OTHER not in done.stdout + done.stderr
    assert kube.runs() == 0


def test_the_library_has_the_same_choices(kube: Kube) -> None:
    session = load_cluster(kubeconfig=kube.path, token=OTHER, impersonate="alice", impersonate_groups=["dev"])
    assert session.grant().headers == (
        ("Authorization", f"Bearer {OTHER}"),
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "dev"),
    )
    assert OTHER not in repr(session)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("5", 5), ("5s", 5), ("1m", 60), ("1h30m", 5400), ("250ms", 0.25), ("0s", 0)],
)
def test_a_time_limit_has_kubectls_forms(text: str, seconds: float) -> None:
    assert parse_request_timeout(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "-1", "5 s", "5x", "inf", "nan"])
def test_any_other_time_limit_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a time limit"):
        parse_request_timeout(text)


def test_a_time_limit_ends_a_request_that_goes_on(kube: Kube, server: ApiServer) -> None:
    """A watch too, as in kubectl."""
    # On a busy machine a connection may take longer.
    for limit in ("1s", "5s", "20s"):
        server.push("first")
        done = keyferry_kube(kube, "raw", "/watch?watch=true", "--request-timeout", limit)
        if done.stdout:
            break
    assert (done.returncode, set(done.stdout.split())) == (124, {"first"})


def test_no_time_limit_waits_for_the_server(kube: Kube, server: ApiServer) -> None:
    """The limit of a plugin's run stays."""
    kube.write(server.url, cluster={"insecure-skip-tls-verify": True}, user={"token": TOKEN})
    server.push("first")
    server.end_watch()
    flags = ("--request-timeout", "0", "--timeout", "0.001")
    assert keyferry_kube(kube, "raw", "/watch", *flags).stdout == "first\n"


def test_a_namespace_takes_the_place_of_the_contexts(kube: Kube) -> None:
    done = keyferry_kube(kube, "explain", "-n", "shop", "-o", "wide", "--no-run")
    assert "namespace 'shop'" in done.stdout
