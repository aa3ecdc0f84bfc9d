"""Answers that are cut off after any number of bytes, reset, or silent: no part of one counts, and nothing hangs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import pytest

from keyferry import KeyferryError, load_providers
from keyferry.clusters.request import request
from keyferry.sdk import Deadline
from keyferry.sdk.http import ONCE, HttpOptions, fetch
from support.agents import running_agent
from support.cut_road import ENDED, RESET, SILENT, CutRoad, cut_road, cut_road_to_socket
from support.fake_cloud import Reply, serving
from support.fake_registry import REPOSITORY, TAG, FakeRegistry
from support.fault_table import Tried
from support.images import build
from support.kube import Kube
from support.layouts import pull_to_layout
from support.lossy_road import LossyRoad, lossy_road
from support.plugins import IMAGE, Node, print_answer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent and its socket are Linux's")

SILENCE_SECONDS = 0.3
MIN_LOST = 5
WAYS = {
    ENDED: "a connection that ends after any number of bytes",
    RESET: "a connection that is reset after some bytes",
    SILENT: "a connection that is silent after some bytes",
}
# Every byte counts for one of the ways; the others differ in what the system tells, not in where.
STEPS = {ENDED: 1, RESET: 11, SILENT: 61}
LOSSY = "a connection that loses every sixth packet, stalls, and comes in droplets"
DEAD = "a connection that loses every packet from some time on"
NAMED = "an error that names the server; no part of an answer counts"


def points(road: CutRoad, way: str) -> range:
    """Set the way, and return where the answer that came through is cut: not after its last byte."""
    road.way = way
    return range(0, road.longest, STEPS[way])


@pytest.mark.parametrize("way", WAYS)
def test_a_plugins_request(way: str, tried: Tried) -> None:
    options = HttpOptions(use_proxy=False, attempt_seconds=SILENCE_SECONDS if way == SILENT else 20.0)
    with serving(lambda _: Reply(document={"token": "t" * 20})) as server, cut_road(server.port) as road:

        def ask() -> object:
            url = f"http://{road.host}/token"
            return fetch("GET", url, deadline=Deadline(20.0), retry=ONCE, options=options).json()

        assert ask() == {"token": "t" * 20}
        for cut_at in points(road, way):
            road.cut_at = cut_at
            with pytest.raises(KeyferryError, match=road.host):
                ask()
        road.cut_at = None
        assert ask() == {"token": "t" * 20}
    tried(WAYS[way], "a plugin's request, by the SDK", NAMED)


@pytest.mark.parametrize("way", WAYS)
def test_a_request_to_a_cluster(way: str, tmp_path: Path, tried: Tried) -> None:
    kube, seconds = Kube(tmp_path), SILENCE_SECONDS if way == SILENT else 20.0
    with serving(lambda _: Reply(document={"major": "1"})) as server, cut_road(server.port) as road:
        kube.write(f"http://{road.host}", user={})
        session = kube.load()

        def ask() -> object:
            with request(session, "/version", timeout_seconds=seconds) as response:
                return json.loads(response.read())

        assert ask() == {"major": "1"}
        for cut_at in points(road, way):
            road.cut_at = cut_at
            with pytest.raises(KeyferryError, match=road.host):
                ask()
        road.cut_at = None
        assert ask() == {"major": "1"}
    tried(WAYS[way], "a request to a cluster", NAMED)


# If the peer has reset the connection before the handshake, the standard library drops the TLS socket without closing
# it; the interpreter closes it at once, and warns.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("way", WAYS)
def test_a_pull(way: str, tmp_path: Path, tried: Tried) -> None:
    """What has come is taken up by the next attempt; the index never names what is not whole."""
    image = build(b"layer" * 40)
    folder = tmp_path / "layout"
    step = {ENDED: 97, RESET: 301, SILENT: 601}[way]
    with serving(FakeRegistry(image)) as server, cut_road(server.port) as road:
        name = f"{road.host}/{REPOSITORY}:{TAG}"
        pull_to_layout(name, tmp_path / "whole")
        road.way = way
        for cut_at in range(0, road.longest, step):
            road.cut_at = cut_at
            try:
                pull_to_layout(name, folder, timeout_seconds=0.5 if way == SILENT else 20.0)
            except KeyferryError as error:
                assert road.host in str(error)
            check_layout(folder, image.blobs)
        road.cut_at = None
        assert pull_to_layout(name, folder).manifest_digest == image.digest
    check_layout(folder, image.blobs)
    tried(
        WAYS[way],
        "a pull into a layout",
        "taken up again, or an error that names the registry; no half image",
    )


def check_layout(folder: Path, blobs: Mapping[str, bytes]) -> None:
    stored = {path.name: path.read_bytes() for path in folder.glob("blobs/sha256/*")}
    for digest, content in blobs.items():
        encoded = digest.removeprefix("sha256:")
        assert stored.get(encoded, content) == content
    index = json.loads((folder / "index.json").read_bytes()) if (folder / "index.json").exists() else {}
    for entry in index.get("manifests", ()):
        assert entry["digest"].removeprefix("sha256:") in stored
        assert all(digest.removeprefix("sha256:") in stored for digest in blobs)


@pytest.mark.parametrize("way", [ENDED, RESET])
def test_an_answer_of_the_agent(way: str, node: Node, tried: Tried) -> None:
    """The library does the work itself, and has the right answer each time."""
    node.shell(print_answer())
    path = str(node.root / "cut.sock")
    with running_agent(node) as agent, cut_road_to_socket(path, agent.socket) as road:

        def ask() -> str:
            providers = load_providers(node.config, node.bin_dir, agent=path)
            return providers.lookup(IMAGE).credentials[0].password

        assert ask() == "pass"
        road.way = way
        assert road.longest > 100
        for cut_at in range(0, road.longest, 9 if way == ENDED else 41):
            road.cut_at = cut_at
            assert ask() == "pass"
    tried(WAYS[way], "an answer of the agent", "the plugin is run instead; the right answer")


def ask_until_packets_are_lost(road: LossyRoad, ask: Callable[[], object], right: object) -> None:
    """Ask again and again: the answer is right each time, and some packets are lost on the way."""
    road.share = 1 / 6
    for _ in range(200):
        assert ask() == right
        if road.lost >= MIN_LOST:
            return
    raise AssertionError(f"{road.lost} packets are lost")


def test_a_plugins_request_on_a_lossy_connection(tried: Tried) -> None:
    with serving(lambda _: Reply(document={"token": "t" * 20})) as server, lossy_road(server.port) as road:

        def ask(seconds: float = 20.0) -> object:
            options = HttpOptions(use_proxy=False, attempt_seconds=seconds)
            url = f"http://{road.host}/token"
            return fetch("GET", url, deadline=Deadline(20.0), retry=ONCE, options=options).json()

        ask_until_packets_are_lost(road, ask, {"token": "t" * 20})
        road.share = 1.0
        with pytest.raises(KeyferryError, match=road.host):
            ask(SILENCE_SECONDS)
    tried(LOSSY, "a plugin's request, by the SDK", "the right answer")
    tried(DEAD, "a plugin's request, by the SDK", NAMED)


def test_a_request_to_a_cluster_on_a_lossy_connection(tmp_path: Path, tried: Tried) -> None:
    kube = Kube(tmp_path)
    with serving(lambda _: Reply(document={"major": "1"})) as server, lossy_road(server.port) as road:
        kube.write(f"http://{road.host}", user={})
        session = kube.load()

        def ask(seconds: float = 20.0) -> object:
            with request(session, "/version", timeout_seconds=seconds) as response:
                return json.loads(response.read())

        ask_until_packets_are_lost(road, ask, {"major": "1"})
        road.share = 1.0
        with pytest.raises(KeyferryError, match=road.host):
            ask(SILENCE_SECONDS)
    tried(LOSSY, "a request to a cluster", "the right answer")
    tried(DEAD, "a request to a cluster", NAMED)


def test_a_pull_on_a_lossy_connection(tmp_path: Path, tried: Tried) -> None:
    image = build(b"layer" * 40)
    folders = (tmp_path / str(number) for number in count())
    with serving(FakeRegistry(image)) as server, lossy_road(server.port) as road:
        name = f"{road.host}/{REPOSITORY}:{TAG}"

        def pull(seconds: float = 20.0) -> str:
            folder = next(folders)
            try:
                return pull_to_layout(name, folder, timeout_seconds=seconds).manifest_digest
            finally:
                check_layout(folder, image.blobs)

        ask_until_packets_are_lost(road, pull, image.digest)
        road.share = 1.0
        with pytest.raises(KeyferryError, match=road.host):
            pull(SILENCE_SECONDS)
    tried(LOSSY, "a pull into a layout", "the whole image")
    tried(DEAD, "a pull into a layout", "an error that names the registry; no half image")
