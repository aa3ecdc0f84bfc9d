"""The examples of docs/clusters.md, against a server with real TLS."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.api_server import REVIEWS, ApiServer, Seen
from support.certificates import Authority
from support.kube import TOKEN, Kube
from support.pages import Machine, blocks
from support.plugins import write_executable

PAGE = "docs/clusters.md"
SERVER = "https://api.prod.example"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands are for a POSIX shell")


class Jane(ApiServer):
    """A server that knows its user's name."""

    authority = Authority()

    def respond(self, seen: Seen) -> tuple[int, bytes] | None:
        """Answer who it is that asks."""
        if seen.path != REVIEWS or seen.token not in self.tokens:
            return super().respond(seen)
        who = {"username": "jane", "groups": ["system:authenticated"]}
        return 201, json.dumps({"kind": "SelfSubjectReview", "status": {"userInfo": who}}).encode()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with Jane(Jane.authority) as made:
        made.tokens.add(TOKEN)
        yield made


@pytest.fixture
def machine(tmp_path: Path, server: ApiServer) -> Machine:
    """Jane's machine: her user has a token, and a plugin that is therefore not run."""
    kube = Kube(tmp_path)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "args": ["get-token"],
        "command": "acme",
        "interactiveMode": "Never",
    }
    kube.write(server.url, ca=Jane.authority.pem, user={"token": TOKEN, "exec": plugin})
    home = tmp_path / "home" / "jane"
    (home / ".kube").mkdir(parents=True)
    config = yaml.safe_load(kube.path.read_text())
    config |= {"current-context": "prod"}
    config["contexts"] = [{"name": "prod", "context": {"cluster": "prod", "user": "jane"}}]
    config["clusters"][0]["name"], config["users"][0]["name"] = "prod", "jane"
    (home / ".kube" / "config").write_text(json.dumps(config))
    (home / ".kube" / "config").chmod(0o600)
    return Machine(tmp_path, {server.url: SERVER, str(home): "/home/jane"}, HOME=str(home))


def test_the_commands_show_what_the_page_shows(machine: Machine, server: ApiServer) -> None:
    """Who one is; and, once the token is no longer known, why one is nobody, with it and without it."""
    whoami, unauthorized, failed = blocks(PAGE, "console")
    machine.show(whoami)
    server.tokens.clear()
    machine.show(unauthorized)
    path = Path(machine.env["HOME"], ".kube", "config")
    config = json.loads(path.read_text())
    del config["users"][0]["user"]["token"]
    path.write_text(json.dumps(config))
    said = "SSO session expired; run 'acme login'"
    write_executable(machine.folder / ".path" / "acme", f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    machine.show(failed)


def test_the_python_reads_the_pods(
    machine: Machine, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = blocks(PAGE, "python")
    monkeypatch.setenv("KUBECONFIG", f"{machine.env['HOME']}/.kube/config")
    monkeypatch.setenv("KUBERC", "off")
    exec(example.text, {})  # noqa: S102 - our own page
    assert [seen.path for seen in server.seen] == ["/api/v1/pods"]
