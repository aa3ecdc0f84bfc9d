"""The finer points of the protocol, with servers that check what they are sent."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

import pytest

from keyferry._core.docker_hub import IDENTITY_TOKEN
from keyferry._net.deadline import Deadline
from keyferry.errors import EnvironmentProblem, ImagePullError
from keyferry.images.reference import parse_image
from keyferry.pulls.layout_target import LayoutTarget
from keyferry.pulls.registry.check import check_registry
from keyferry.pulls.registry.transport import RegistryRoute, Transport, find_origin
from support.fake_cloud import ConnectProxy, FakeServer, Received, Reply, serving
from support.fake_registry import (
    PAIR,
    PASSWORD,
    REPOSITORY,
    TAG,
    TOKEN,
    USER,
    FakeRegistry,
    blob_path,
    blob_reply,
    credential,
    image_of,
    manifest_path,
    manifest_reply,
    token_reply,
    unauthorized,
)
from support.images import BuiltImage, build, digest_of, noise
from support.layouts import pull_to_layout, pull_to_layout_async

IMAGE = build(noise(200_000))
CONFIG, LAYER = IMAGE.blobs.values()
NAME = "registry.example"


def proofs(server: FakeServer) -> list[str]:
    return [request.headers.get("authorization", "") for request in server.received if request.path != "/v2/"]


@pytest.mark.parametrize(
    ("registry", "host"),
    [
        ("docker.io", "registry-1.docker.io"),
        ("registry.example", "registry.example"),
        ("registry.example:5000", "registry.example"),
        ("[2001:db8::1]:5000", "2001:db8::1"),
    ],
)
def test_a_registry_is_asked_over_https_where_it_says(registry: str, host: str) -> None:
    """Nothing is sent to find that out."""
    origin = find_origin(Transport(RegistryRoute(), Deadline(5)), registry)
    assert (origin.scheme, origin.host, origin.port) == ("https", host, 5000 if "5000" in registry else 443)


def test_an_identity_token_is_posted_and_never_shown_as_a_password() -> None:
    def tokens(request: Received) -> Reply:
        assert request.method == "POST"
        assert "authorization" not in request.headers
        assert request.form == {
            "grant_type": "refresh_token",
            "refresh_token": "the-identity",
            "service": "s",
            "scope": f"repository:{REPOSITORY}:pull",
            "client_id": "keyferry",
        }
        return Reply(document={"access_token": TOKEN})

    with (
        serving(tokens) as server,
        serving(FakeRegistry(IMAGE, f'Bearer realm="{server.url}/t",service="s"')) as reg,
    ):
        (attempt,) = check_registry(image_of(reg), [credential(IDENTITY_TOKEN, "the-identity")])
    assert attempt.worked
    assert proofs(reg) == ["", f"Bearer {TOKEN}"]


def test_an_identity_token_is_no_password_for_a_registry_that_wants_one() -> None:
    with serving(FakeRegistry(IMAGE, "Basic realm=r")) as server:
        (attempt,) = check_registry(image_of(server), [credential(IDENTITY_TOKEN, "the-identity")])
    assert attempt.kind == "refused"
    assert set(proofs(server)) == {""}


def test_a_token_server_without_get_is_asked_by_post() -> None:
    def tokens(request: Received) -> Reply:
        if request.method == "GET":
            return Reply(405)
        assert request.form["grant_type"] == "password"
        assert (request.form["username"], request.form["password"]) == (USER, PASSWORD)
        return Reply(document={"token": TOKEN})

    with (
        serving(tokens) as server,
        serving(FakeRegistry(IMAGE, f'Bearer realm="{server.url}/t"')) as registry,
    ):
        (attempt,) = check_registry(image_of(registry), [credential()])
    assert attempt.worked


def test_a_realm_with_a_query_keeps_it() -> None:
    def tokens(request: Received) -> Reply:
        assert request.query["tenant"] == "a b"
        return token_reply(request)

    challenge = 'Bearer realm="{}/t?tenant=a%20b",service="x y",scope="repository:team/app:pull"'
    with serving(tokens) as server, serving(FakeRegistry(IMAGE, challenge.format(server.url))) as registry:
        (attempt,) = check_registry(image_of(registry), [credential()])
    assert attempt.worked
    assert server.received[0].query["service"] == "x y"


def test_without_a_credential_a_token_is_asked_for_anonymously() -> None:
    def tokens(request: Received) -> Reply:
        assert "authorization" not in request.headers
        return Reply(document={"token": TOKEN})

    with (
        serving(tokens) as server,
        serving(FakeRegistry(IMAGE, f'Bearer realm="{server.url}/t"')) as registry,
    ):
        (attempt,) = check_registry(image_of(registry))
    assert attempt.worked
    assert attempt.credential is None


def test_a_token_that_runs_out_on_the_way_is_renewed(tmp_path: Path) -> None:
    """The first one is good for the manifest alone."""
    given: list[str] = []

    def tokens(request: Received) -> Reply:
        assert request.headers["authorization"] == f"Basic {PAIR}"
        given.append(f"token-{len(given)}")
        return Reply(document={"token": given[-1]})

    with serving(tokens) as server:
        challenge = f'Bearer realm="{server.url}/t"'
        whole = FakeRegistry(IMAGE)

        def registry(request: Received) -> Reply:
            wanted = "Bearer token-1" if "blobs" in request.path else "Bearer token-0"
            if request.path == "/v2/" or request.headers.get("authorization") == wanted:
                return whole(request)
            return unauthorized(challenge)

        with serving(registry) as reg:
            pulled = pull_to_layout(image_of(reg), tmp_path, [credential()])
    assert pulled.manifest_digest == IMAGE.digest
    assert given == ["token-0", "token-1"]


def test_layers_that_find_a_token_run_out_at_once_fetch_one_together(tmp_path: Path) -> None:
    """The three of them are refused at the same time; one goes for a new token, the others use it."""
    image = build(noise(1000), noise(1000), noise(1000))
    given: list[str] = []
    gate = threading.Barrier(3, timeout=20)

    def tokens(_: Received) -> Reply:
        given.append(f"token-{len(given)}")
        return Reply(document={"token": given[-1]})

    with serving(tokens) as server:
        challenge = f'Bearer realm="{server.url}/t"'
        whole = FakeRegistry(image)
        layers = list(image.blobs)[1:]

        def registry(request: Received) -> Reply:
            proof = request.headers.get("authorization")
            if request.path.rpartition("/")[2] in layers and proof == "Bearer token-0":
                gate.wait()
                return unauthorized(challenge)
            return whole(request) if proof or request.path == "/v2/" else unauthorized(challenge)

        with serving(registry) as reg:
            pull_to_layout(image_of(reg), tmp_path, [credential()], route=RegistryRoute(parallel_blobs=3))
    assert given == ["token-0", "token-1"]


def test_a_registry_without_head_is_asked_for_the_whole() -> None:
    def answer(request: Received) -> Reply:
        return Reply(405) if request.method == "HEAD" else manifest_reply(IMAGE)

    with serving(FakeRegistry(IMAGE, instead={manifest_path(): answer})) as server:
        (attempt,) = check_registry(image_of(server))
    assert attempt.worked
    assert attempt.digest == IMAGE.digest


def leave_draft(folder: Path, content: bytes, blob: bytes = LAYER) -> Path:
    drafts = folder / ".keyferry"
    drafts.mkdir(parents=True)
    draft = drafts / digest_of(blob).replace(":", "-")
    draft.write_bytes(content)
    return draft


def ranges(server: FakeServer) -> list[str]:
    return [
        request.headers.get("range", "") for request in server.received if request.path == blob_path(LAYER)
    ]


def test_what_another_pull_left_is_taken_up(tmp_path: Path) -> None:
    draft = leave_draft(tmp_path, LAYER[:150_000])
    with serving(FakeRegistry(IMAGE)) as server:
        pulled = pull_to_layout(image_of(server), tmp_path)
    assert ranges(server) == ["bytes=150000-"]
    assert pulled.manifest_digest == IMAGE.digest
    assert not draft.exists()


@pytest.mark.parametrize("left", [b"x" * 150_000, LAYER[1:], LAYER + b"more", b"x" * len(LAYER)])
def test_what_another_pull_left_and_is_wrong_is_fetched_from_the_start(tmp_path: Path, left: bytes) -> None:
    leave_draft(tmp_path, left)
    with serving(FakeRegistry(IMAGE)) as server:
        pull_to_layout(image_of(server), tmp_path)
    assert ranges(server)[-1] == ""
    assert (tmp_path / "blobs/sha256" / digest_of(LAYER)[7:]).read_bytes() == LAYER


@pytest.mark.parametrize("status", [200, 416])
def test_a_server_without_ranges_sends_all_of_it_again(tmp_path: Path, status: int) -> None:
    leave_draft(tmp_path, LAYER[:150_000])

    def answer(request: Received) -> Reply:
        return Reply(416) if status == 416 and "range" in request.headers else Reply(body=LAYER)

    with serving(FakeRegistry(IMAGE, instead={blob_path(LAYER): answer})) as server:
        pulled = pull_to_layout(image_of(server), tmp_path)
    assert pulled.manifest_digest == IMAGE.digest


def test_a_connection_that_breaks_off_is_taken_up_within_the_same_pull(tmp_path: Path) -> None:
    def answer(request: Received) -> Reply:
        if "range" not in request.headers:
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(LAYER)}\r\n\r\n"
            return Reply(raw=head.encode() + LAYER[:100_000])
        return blob_reply(LAYER, request)

    with serving(FakeRegistry(IMAGE, instead={blob_path(LAYER): answer})) as server:
        pull_to_layout(image_of(server), tmp_path)
    assert ranges(server) == ["", "bytes=100000-"]


def test_a_disk_that_takes_no_more_is_said_and_ends_the_pull(tmp_path: Path) -> None:
    """It is nothing that another credential could cure."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with serving(FakeRegistry(IMAGE)) as server:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(EnvironmentProblem, match="cannot store a layer: File too large"):
                pull_to_layout(image_of(server), tmp_path, [credential(), credential("bob", "other")])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len([request for request in server.received if "manifests" in request.path]) == 1


def test_whoever_says_insecure_gets_plain_http_where_there_is_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also through a proxy; without the word, nothing is asked there but for TLS."""
    with serving(FakeRegistry(IMAGE, "Basic realm=r")) as server, ConnectProxy({NAME: server.port}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        route = RegistryRoute(is_insecure=True, idle_seconds=2)
        (attempt,) = check_registry(f"{NAME}/{REPOSITORY}:{TAG}", [credential()], route=route)
        assert attempt.worked
        assert proofs(server) == ["", f"Basic {PAIR}"]
        assert set(proxy.asked) == {f"{NAME}:443", NAME}


def test_layers_come_in_parallel_but_not_all_at_once(tmp_path: Path) -> None:
    """Nobody is answered before three have asked; a fourth comes only after that."""
    image = build(*(noise(1000) for _ in range(7)))
    layers = list(image.blobs)[1:]
    gate, lock, waiting, most = threading.Event(), threading.Lock(), 0, 0

    def answer(request: Received) -> Reply:
        nonlocal waiting, most
        with lock:
            waiting += 1
            most = max(most, waiting)
            if waiting == 3:
                gate.set()
        assert gate.wait(20)
        with lock:
            waiting -= 1
        return Reply(body=image.blobs[request.path.rpartition("/")[2]])

    instead = {f"/v2/{REPOSITORY}/blobs/{name}": answer for name in layers}
    with serving(FakeRegistry(image, instead=instead)) as server:
        pull_to_layout(image_of(server), tmp_path, route=RegistryRoute(parallel_blobs=3))
    assert most == 3


def hanging(image: BuiltImage) -> tuple[FakeRegistry, threading.Event, Callable[[], None]]:
    """A registry that never ends its layer, an event for when it was asked, and a way to end it."""
    asked, over = threading.Event(), threading.Event()

    def answer(_: Received) -> Reply:
        asked.set()
        over.wait(20)
        return Reply(is_closed=True)

    return FakeRegistry(image, instead={blob_path(LAYER): answer}), asked, over.set


def test_a_pull_can_be_cancelled_from_another_thread(tmp_path: Path) -> None:
    registry, asked, end = hanging(IMAGE)
    with serving(registry) as server:
        target = LayoutTarget(tmp_path)
        problems: list[BaseException] = []

        def run() -> None:
            try:
                target.pull_image(parse_image(image_of(server)), None)
            except BaseException as error:  # noqa: BLE001 - looked at below
                problems.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert asked.wait(20)
        target.close()
        thread.join(10)
        assert not thread.is_alive()
        end()
    assert len(problems) == 1


def test_cancelling_the_awaited_form_ends_the_pull(tmp_path: Path) -> None:
    registry, asked, end = hanging(IMAGE)

    async def cancel_it(image: str) -> None:
        task = asyncio.create_task(pull_to_layout_async(image, tmp_path))
        await asyncio.to_thread(asked.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(registry) as server:
        asyncio.run(cancel_it(image_of(server)))
        for thread in threading.enumerate():
            if thread.name.startswith(("keyferry-pull", "keyferry-blob")):
                thread.join(10)
                assert not thread.is_alive()
        end()


def test_one_failing_layer_ends_the_others_at_once(tmp_path: Path) -> None:
    """Whoever waits for a layer that hangs is woken up: the pull is over while the server still makes it wait."""
    image = build(noise(1000), noise(1000))
    _, hangs, fails = image.blobs
    asked, over = threading.Event(), threading.Event()
    ended: list[bool] = []

    def hang(_: Received) -> Reply:
        asked.set()
        ended.append(over.wait(20))
        return Reply(is_closed=True)

    def fail(_: Received) -> Reply:
        assert asked.wait(20)
        return Reply(500)

    instead = {f"/v2/{REPOSITORY}/blobs/{hangs}": hang, f"/v2/{REPOSITORY}/blobs/{fails}": fail}
    with serving(FakeRegistry(image, instead=instead)) as server:
        with pytest.raises(ImagePullError, match="status 500"):
            pull_to_layout(
                image_of(server), tmp_path, route=RegistryRoute(idle_seconds=600, answer_seconds=600)
            )
        assert not ended
        over.set()


class Lasting(ThreadingHTTPServer):
    """A registry whose connections last, and are counted; after *requests_each* it ends one, unannounced."""

    daemon_threads = True

    def __init__(self, registry: FakeRegistry, requests_each: int) -> None:
        self.connections = 0
        self.count = Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(this) -> None:  # noqa: N805 - self is the server here
                with self.count:
                    self.connections += 1
                this.served = 0
                super().setup()

            def log_message(this, format: str, *args: object) -> None:  # noqa: N805 - the base's names
                pass

            def do_GET(this) -> None:  # noqa: N805 - the base's name
                headers = {name.lower(): value for name, value in this.headers.items()}
                reply = registry(Received(this.command, this.path, {}, headers, b"", this.path))
                this.send_response(reply.status)
                for name, value in reply.headers.items():
                    this.send_header(name, value)
                this.send_header("Content-Length", str(len(reply.payload)))
                this.end_headers()
                this.wfile.write(reply.payload if this.command == "GET" else b"")
                this.served += 1
                this.close_connection = this.served >= requests_each

            do_HEAD = do_GET  # noqa: N815 - the base's name

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.mark.parametrize(("requests_each", "most"), [(1000, 1), (1, 1000)])
def test_connections_are_kept_and_one_that_has_ended_is_replaced(
    tmp_path: Path, requests_each: int, most: int
) -> None:
    """Ping, challenge, manifest, config and layers over one connection; or each over its own, as the server likes."""
    image = build(noise(1000), noise(1000))
    server = Lasting(FakeRegistry(image, "Basic realm=r"), requests_each)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        name = f"127.0.0.1:{server.server_port}/{REPOSITORY}:{TAG}"
        pulled = pull_to_layout(name, tmp_path, [credential()], route=RegistryRoute(parallel_blobs=1))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert pulled.manifest_digest == image.digest
    assert 1 <= server.connections <= most
