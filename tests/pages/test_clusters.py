"""The examples of docs/clusters.md, against a server with real TLS."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.api_server import REVIEWS, ApiServer, Seen
from support.certificates import Authority
from support.kube import TOKEN, Kube, credential
from support.pages import Machine, blocks
from support.plugins import write_executable
from support.profile_world import ARGS, Hub

PAGE = "docs/clusters.md"
SERVER = "https://api.prod.example"
PLUGIN = "/usr/local/bin/keyferry-gke"
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
    whoami, unauthorized, failed, _ = blocks(PAGE, "console")
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
    example, _ = blocks(PAGE, "python")
    monkeypatch.setenv("KUBECONFIG", f"{machine.env['HOME']}/.kube/config")
    monkeypatch.setenv("KUBERC", "off")
    exec(example.text, {})  # noqa: S102 - our own page
    assert [seen.path for seen in server.seen] == ["/api/v1/pods"]


class Fleet:
    """A folder with the provider file of the page, and the profile of a cluster whose plugin gives the token."""

    def __init__(self, folder: Path, server: ApiServer) -> None:
        self.folder = folder
        answer = credential(TOKEN)
        plugin = write_executable(folder / "keyferry-gke", f"#!/bin/sh\necho '{answer}'\n")
        (providers,) = blocks(PAGE, "json")
        (folder / "providers.json").write_text(providers.text.replace(PLUGIN, str(plugin)))
        cluster = {
            "server": server.url,
            "certificate-authority-data": base64.b64encode(Jane.authority.pem.encode()).decode(),
            "insecure-skip-tls-verify": True,
            "extensions": [{"name": ARGS, "extension": ["--cluster", "fleet-1"]}],
        }
        self.profile = {
            "apiVersion": "multicluster.x-k8s.io/v1alpha1",
            "kind": "ClusterProfile",
            "metadata": {"name": "fleet-1", "namespace": "inventory"},
            "status": {"accessProviders": [{"name": "google", "cluster": cluster}]},
        }
        (folder / "fleet-1.yaml").write_text(yaml.safe_dump(self.profile))


def test_a_cluster_of_the_inventory_is_explained_as_on_the_page(tmp_path: Path, server: ApiServer) -> None:
    Fleet(tmp_path, server)
    *_, explained = blocks(PAGE, "console")
    Machine(tmp_path, {server.url: "https://fleet-1.example"}, KUBERC="off").show(explained)


def test_the_python_reaches_a_cluster_of_the_inventory(
    tmp_path: Path, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, server)
    with Hub(Jane.authority) as hub:
        hub.tokens = {TOKEN}
        hub.profiles = {"inventory/fleet-1": fleet.profile}
        kube = Kube(tmp_path)
        kube.write(hub.url, ca=Jane.authority.pem, user={"token": TOKEN})
        kube.path.write_text(kube.path.read_text().replace('"test"', '"hub"'))
        monkeypatch.setenv("KUBECONFIG", str(kube.path))
        monkeypatch.setenv("KUBERC", "off")
        _, example = blocks(PAGE, "python")
        exec(example.text.replace("/etc/fleet", str(tmp_path)), {})  # noqa: S102 - our own page
    assert [seen.path for seen in server.seen] == ["/api/v1/pods"]
