"""The registry's addresses, tokens and protocol."""

from __future__ import annotations

import asyncio
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from threading import Lock

import pytest

from keyferry import Puller, RegistryRoute, check_registry, open_target
from keyferry._core.docker_hub import IDENTITY_TOKEN
from keyferry._net.deadline import Deadline
from keyferry._net.http_errors import split_url
from keyferry.errors import EnvironmentProblem, ImagePullError, Kind, RegistryError
from keyferry.pulls.registry.addresses import (
    is_loopback,
    is_loopback_name,
    is_machine_address,
    why_forbidden,
)
from keyferry.pulls.registry.tokens import Challenge, parse_challenges
from keyferry.pulls.registry.transport import Transport, find_origin
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
from support.networks import own_addresses

METADATA = [
    "169.254.169.254",
    "169.254.170.23",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "100.100.100.200",
    "168.63.129.16",
]
UNSPECIFIED = ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"]
LOOPBACK = ["127.0.0.1", "127.9.9.9", "::1"]
ELSEWHERE = ["10.0.0.7", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd12:3456::1", "::ffff:10.0.0.7"]


def teredo(address: str, server: str = "65.54.227.120") -> str:
    """A Teredo address of a client, which is written with all bits turned over."""
    client = 0xFFFF_FFFF - int(IPv4Address(address))
    return str(IPv6Address(0x2001_0000 << 96 | int(IPv4Address(server)) << 64 | client))


def shifted(prefix: str, address: str, shift: int) -> str:
    """An IPv4 address at some place behind a prefix."""
    return str(IPv6Address(int(IPv6Address(prefix)) | int(IPv4Address(address)) << shift))


def split(prefix: str, address: str, first_bits: int) -> str:
    """An IPv4 address around the byte in the middle, with so many bits before it."""
    number, rest = int(IPv4Address(address)), 32 - first_bits
    inner = number >> rest << 64 | (number & (1 << rest) - 1) << (56 - rest)
    return str(IPv6Address(int(IPv6Address(prefix)) | inner))


# Every way to write an IPv4 address into an IPv6 address.
EMBEDDINGS: dict[str, Callable[[str], str]] = {
    "mapped": lambda address: shifted("::ffff:0:0", address, 0),
    "translated": lambda address: shifted("::ffff:0:0:0", address, 0),
    "compatible": lambda address: shifted("::", address, 0),
    "6to4": lambda address: shifted("2002::1", address, 80),
    "NAT64": lambda address: shifted("64:ff9b::", address, 0),
    "NAT64 of its own, 48 bits": lambda address: split("64:ff9b:1::", address, 16),
    "NAT64 of its own, 56 bits": lambda address: split("64:ff9b:1:200::", address, 8),
    "NAT64 of its own, 64 bits": lambda address: split("64:ff9b:1:203::", address, 0),
    "NAT64 of its own, 96 bits": lambda address: shifted("64:ff9b:1:203::", address, 0),
    "Teredo client": teredo,
    "Teredo server": lambda address: teredo("8.8.8.8", address),
    "ISATAP": lambda address: shifted("2001:db8::5efe:0:0", address, 0),
}


@pytest.mark.parametrize("address", [*METADATA, *UNSPECIFIED, "224.0.0.1", "ff02::1", "255.255.255.255"])
@pytest.mark.parametrize("allows_this_machine", [False, True])
def test_nobody_is_led_to_metadata(address: str, allows_this_machine: bool) -> None:
    """However it is spelled, and from wherever one comes."""
    assert why_forbidden(address, allows_this_machine=allows_this_machine)


@pytest.mark.parametrize("inner", ["169.254.169.254", "100.100.100.200", "127.0.0.1", "127.9.9.9"])
@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS)
@pytest.mark.parametrize("allows_this_machine", [False, True])
def test_an_embedded_address_forbids_and_never_permits(
    inner: str, embed: Callable[[str], str], allows_this_machine: bool
) -> None:
    """Who delivers it decides where it ends up, so it is neither harmless nor this machine."""
    assert why_forbidden(embed(inner), allows_this_machine=allows_this_machine)
    assert not is_loopback(embed(inner))


@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS)
def test_an_embedded_address_that_is_harmless_is_fine(embed: Callable[[str], str]) -> None:
    """Registries behind NAT64 are reached so."""
    for inner in ("10.0.0.7", "8.8.8.127", "203.0.113.224", "52.127.169.254"):
        assert why_forbidden(embed(inner), allows_this_machine=False, is_own=lambda _: False) == ""


@pytest.mark.parametrize("address", LOOPBACK)
def test_only_this_machine_leads_to_this_machine(address: str) -> None:
    """A loopback address is forbidden to all others."""
    assert is_loopback(address)
    assert why_forbidden(address, allows_this_machine=False) == "this machine itself"
    assert why_forbidden(address, allows_this_machine=True) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' own tables")
def test_the_addresses_of_this_machine_are_this_machine() -> None:
    """Every one that an interface has, and an IPv4 address among them however it is embedded."""
    for address in own_addresses():
        assert why_forbidden(address, allows_this_machine=False) == "this machine itself", address
        assert why_forbidden(address, allows_this_machine=True) == "", address
        # Plain HTTP is for loopback addresses alone.
        assert is_loopback(address) is ip_address(address).is_loopback
        if ":" not in address:
            for embed in EMBEDDINGS.values():
                assert why_forbidden(embed(address), allows_this_machine=True) == "this machine itself", (
                    address
                )


@pytest.mark.parametrize("address", ELSEWHERE)
def test_other_addresses_are_fine_private_ones_too(address: str) -> None:
    """Registries keep their blobs beside themselves."""
    assert not is_loopback(address)
    assert why_forbidden(address, allows_this_machine=False) == ""


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LocalHost.", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("127.1", True),
        ("127.0.0.1.", False),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("registry.example", False),
    ],
)
def test_this_machine_is_known_by_name(host: str, expected: bool) -> None:
    assert is_loopback_name(host) is expected


@pytest.mark.parametrize("platform", [sys.platform, "another"])
@pytest.mark.parametrize(
    ("address", "is_own"), [("127.0.0.1", True), ("192.0.2.1", False), ("8.8.8.8", False)]
)
def test_a_machine_knows_itself_on_every_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, address: str, is_own: bool
) -> None:
    """Whether there is a route to an address or none."""
    monkeypatch.setattr(sys, "platform", platform)
    assert is_machine_address(ip_address(address)) is is_own


REALM = "https://auth.example/token"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (['Basic realm="r"'], [("basic", {"realm": "r"})]),
        (["Basic"], [("basic", {})]),
        (["bAsIc ReAlM=r"], [("basic", {"realm": "r"})]),
        (
            [f'Bearer realm="{REALM}",service="s",scope="repository:a/b:pull,push"'],
            [("bearer", {"realm": REALM, "service": "s", "scope": "repository:a/b:pull,push"})],
        ),
        ([f"Bearer realm={REALM}, service=s"], [("bearer", {"realm": REALM, "service": "s"})]),
        (['Bearer realm = "x" ,\tservice\t=\ty'], [("bearer", {"realm": "x", "service": "y"})]),
        (['Bearer realm="a\\"b\\\\c,d"'], [("bearer", {"realm": 'a"b\\c,d'})]),
        (
            ['Basic realm="r", Bearer realm="x",service="s"'],
            [("basic", {"realm": "r"}), ("bearer", {"realm": "x", "service": "s"})],
        ),
        (['Basic realm="r"', 'Bearer realm="x"'], [("basic", {"realm": "r"}), ("bearer", {"realm": "x"})]),
        (["Basic, Bearer realm=x"], [("basic", {}), ("bearer", {"realm": "x"})]),
        (["Negotiate YIIb64==, Basic realm=r"], [("negotiate", {}), ("basic", {"realm": "r"})]),
        ([",, ,Basic realm=r,,"], [("basic", {"realm": "r"})]),
        (['Bearer realm="first",realm="second"'], [("bearer", {"realm": "first"})]),
        (['Bearer realm="no end'], [("bearer", {"realm": ""})]),
        ([""], []),
        (["=,\"'"], []),
        ([], []),
    ],
)
def test_challenges_are_read_as_they_are_meant(
    values: list[str], expected: list[tuple[str, dict[str, str]]]
) -> None:
    assert parse_challenges(values) == tuple(
        Challenge(scheme=each[0], parameters=each[1]) for each in expected
    )


def test_no_header_is_long_enough_to_hurt() -> None:
    """A header of a megabyte is cut, and a thousand challenges are sixteen."""
    assert len(parse_challenges(["Basic, " * 150_000])) == 16
    assert parse_challenges(['Bearer realm="' + "a" * 1_000_000]) == (
        Challenge(scheme="bearer", parameters={"realm": ""}),
    )


@pytest.mark.parametrize(
    "document",
    [
        {"token": TOKEN, "access_token": "b"},
        {"token": "", "access_token": TOKEN},
        {"token": 1, "access_token": TOKEN},
    ],
)
def test_a_token_has_two_names(document: object) -> None:
    """And is preferred to a password, whatever the order of the challenges."""
    with serving(lambda _: Reply(document=document)) as server:
        challenge = f'Basic realm="r", Bearer realm="{server.url}/t"'
        with serving(FakeRegistry(IMAGE, challenge)) as registry:
            (attempt,) = check_registry(image_of(registry), [credential()])
    assert attempt.worked
    assert proofs(registry) == ["", f"Bearer {TOKEN}"]


@pytest.mark.parametrize(
    "challenge",
    ["", "Bearer service=s", 'Bearer realm="no end', "Negotiate", "Negotiate YII=", "Digest realm=r"],
)
def test_a_challenge_that_nobody_here_can_meet_is_a_refusal(challenge: str) -> None:
    """The Basic one beside it still counts."""
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    with serving(lambda _: Reply(401, headers=headers)) as server:
        (attempt,) = check_registry(image_of(server), [credential()])
    assert attempt.kind == "refused"
    with serving(FakeRegistry(IMAGE, f"Basic realm=r, {challenge}")) as server:
        (attempt,) = check_registry(image_of(server), [credential()])
    assert attempt.worked


def test_a_credential_that_was_refused_is_not_sent_again() -> None:
    """By HEAD once, and by GET once."""
    proofs: list[tuple[str, str]] = []

    def refuse(request: Received) -> Reply:
        if request.path != "/v2/":
            proofs.append((request.method, request.headers.get("authorization", "")[:5]))
        return Reply(401, headers={"WWW-Authenticate": "Basic realm=r"})

    with serving(refuse) as server:
        (attempt,) = check_registry(image_of(server), [credential()])
    assert attempt.kind == "refused"
    assert [proof for proof in proofs if proof[1]] == [("HEAD", "Basic"), ("GET", "Basic")]


@pytest.fixture(autouse=True)
def _plain_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)


IMAGE = build(noise(200_000))
_, LAYER = IMAGE.blobs.values()
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
    with serving(registry) as server, ThreadPoolExecutor(1) as pool:
        puller = Puller(open_target(to=tmp_path))
        pulling = pool.submit(puller.pull, image_of(server))
        assert asked.wait(20)
        puller.close()
        assert isinstance(pulling.exception(20), ImagePullError)
        end()


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
        self.proofs: list[str] = []
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
                self.proofs.append(headers.get("authorization", ""))
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


@contextmanager
def lasting(registry: FakeRegistry, requests_each: int = 1000) -> Iterator[Lasting]:
    with Lasting(registry, requests_each) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("requests_each", "most"), [(1000, 1), (1, 1000)])
def test_connections_are_kept_and_one_that_has_ended_is_replaced(
    tmp_path: Path, requests_each: int, most: int
) -> None:
    """Ping, challenge, manifest, config and layers over one connection; or each over its own, as the server likes."""
    image = build(noise(1000), noise(1000))
    with lasting(FakeRegistry(image, "Basic realm=r"), requests_each) as server:
        name = f"127.0.0.1:{server.server_port}/{REPOSITORY}:{TAG}"
        pulled = pull_to_layout(name, tmp_path, [credential()], route=RegistryRoute(parallel_blobs=1))
    assert pulled.manifest_digest == image.digest
    assert 1 <= server.connections <= most


def refuse(address: str) -> None:
    """Say no, as for a place that an answer led to and that may not be asked."""
    raise RegistryError("registry.example", 0, f"leads to {address}", Kind.UNSAFE)


def test_a_kept_connection_is_judged_anew() -> None:
    """That a host may be asked for one thing does not mean that a redirect may lead there: nothing is sent."""
    with (
        lasting(FakeRegistry(IMAGE)) as server,
        closing(Transport(RegistryRoute(), Deadline(20))) as transport,
    ):
        origin = split_url(f"http://127.0.0.1:{server.server_port}/v2/")
        with transport.request(origin, "GET", {}, admit=lambda _: None) as answer:
            answer.read(10)
        with pytest.raises(RegistryError, match=r"leads to 127\.0\.0\.1"):
            transport.request(origin, "GET", {"Authorization": "Bearer secret"}, admit=refuse)
    assert server.proofs == [""]
