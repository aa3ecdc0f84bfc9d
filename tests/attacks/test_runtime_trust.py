"""Files of container runtimes, and hosts that they name, which try to send trust, keys or headers to somebody else."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest

from keyferry.errors import Kind
from keyferry.explain.explanation import PullVerdict
from keyferry.explain.registry import RegistryCheck, attempt_lines, verdict
from keyferry.pulls.mirrors.endpoints import MirrorPlaces
from keyferry.pulls.mirrors.find import find_endpoints
from keyferry.pulls.registry.check import check_endpoints
from keyferry.pulls.registry.transport import RegistryRoute
from support import certificates
from support.fake_cloud import Authority, ConnectProxy, Received, Reply, serving
from support.fake_registry import REPOSITORY, TAG, FakeRegistry, credential, manifest_path, token_reply
from support.images import build
from support.mirrors import write

IMAGE = build(b"layer")
NAME = f"own.invalid/{REPOSITORY}:{TAG}"
SECRET = "kf-marked-header-value"
BASIC = "Basic realm=r"


def ask(root: Path, *, route: RegistryRoute = RegistryRoute()) -> RegistryCheck:
    """Check the image by the hosts.toml of its registry."""
    mirrors = find_endpoints(NAME, MirrorPlaces(root=str(root), hosts_dir=str(root / "hosts")))
    assert mirrors is not None
    return RegistryCheck(
        image=NAME, attempts=check_endpoints(NAME, [credential()], mirrors, route=route), mirrors=mirrors
    )


def write_hosts(root: Path, text: str) -> None:
    write(root, "hosts/own.invalid/hosts.toml", text)


def said(check: RegistryCheck) -> str:
    return "\n".join((verdict(check), *attempt_lines(check)))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "ca").mkdir()
    return Authority(tmp_path / "ca")


def test_any_certificate_is_accepted_from_the_host_that_says_so_alone(
    tmp_path: Path, authority: Authority
) -> None:
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(serving(FakeRegistry(IMAGE, BASIC), authority.context("127.0.0.1")))
            for _ in range(2)
        )
        write_hosts(tmp_path, f'[host."{first.url}"]\nskip_verify = true\n')
        assert ask(tmp_path).attempts[0].mirror == first.url
        text = f'[host."{first.url}/no"]\nskip_verify = true\n[host."{second.url}"]\n'
        write_hosts(tmp_path, text)
        check = ask(tmp_path)
    assert check.verdict is PullVerdict.UNKNOWN
    assert [each.error.kind for each in check.attempts[0].answers if each.error is not None][:2] == [
        Kind.NOT_FOUND,
        Kind.UNREACHABLE,
    ]
    assert second.received == []


def test_headers_go_to_their_host_alone_and_are_never_shown(tmp_path: Path) -> None:
    """Not to the next host, a redirect or a token server elsewhere; a server that repeats them is redacted."""

    def echo(request: Received) -> Reply:
        text = f"key {request.headers.get('x-key', '')} and {request.headers.get('authorization', '')}"
        return Reply(403, {"errors": [{"code": "DENIED", "message": text}]})

    with ExitStack() as stack:
        tokens = stack.enter_context(serving(token_reply))
        storage = stack.enter_context(serving(lambda _: Reply(404)))
        bearer = FakeRegistry(IMAGE, f'Bearer realm="{tokens.url}/token"', {manifest_path(): echo})
        first = stack.enter_context(serving(bearer))
        second = stack.enter_context(serving(FakeRegistry(IMAGE, f'Bearer realm="{tokens.url}/token"')))
        third = stack.enter_context(
            serving(lambda _: Reply(307, headers={"Location": f"{storage.url}/elsewhere"}))
        )
        header = f'X-Key = "{SECRET}"\nAuthorization = "Basic {SECRET}"\nHost = "evil.example"\n'
        text = "".join(f'[host."{each.url}".header]\n{header}' for each in (first, third, second))
        write_hosts(tmp_path, text)
        check = ask(tmp_path)
    assert check.verdict is PullVerdict.YES
    for server in (first, second, third):
        assert server.received[0].headers["x-key"] == SECRET
        assert server.received[0].headers["authorization"] == f"Basic {SECRET}"
        assert server.received[0].headers["host"] == f"127.0.0.1:{server.port}"
    for server in (tokens, storage):
        assert server.received
        assert SECRET not in str(server.received)
    assert SECRET not in said(check) + repr(check)


def test_plain_http_is_for_the_host_that_the_file_names_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credential goes there over plain HTTP, and not to a token server that the host names with it."""
    registry = FakeRegistry(IMAGE, BASIC)
    with (
        serving(registry) as server,
        ConnectProxy({"mirror.invalid": server.port, "auth.invalid": server.port}) as proxy,
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        write_hosts(tmp_path, '[host."http://mirror.invalid"]\n')
        assert ask(tmp_path).attempts[0].mirror == "http://mirror.invalid"
        registry.challenge = 'Bearer realm="http://auth.invalid/token"'
        failed = ask(tmp_path).attempts[0].answers[0].error
    assert failed is not None
    assert failed.kind is Kind.UNSAFE
    assert not any(place.startswith("auth.invalid") for place in proxy.asked)


def test_an_authority_of_a_host_is_not_trusted_for_its_token_server(
    tmp_path: Path, authority: Authority
) -> None:
    with (
        serving(token_reply, authority.context("127.0.0.1")) as tokens,
        serving(
            FakeRegistry(IMAGE, f'Bearer realm="{tokens.url}/token"'), authority.context("127.0.0.1")
        ) as server,
    ):
        write_hosts(tmp_path, f'[host."{server.url}"]\nca = "{authority.bundle}"\n')
        check = ask(tmp_path)
        assert check.verdict is PullVerdict.UNKNOWN
        assert f"{tokens.url}/token" in said(check)
        assert tokens.received == []
        route = RegistryRoute(ca_file=str(authority.bundle))
        assert ask(tmp_path, route=route).verdict is PullVerdict.YES


def test_a_key_with_a_pass_phrase_is_said_and_not_asked_for(tmp_path: Path) -> None:
    key = certificates.make_key()
    pem = certificates.make_certificate(key) + certificates.key_pem(key, "traditional", "pass")
    write(tmp_path, "hosts/own.invalid/both.pem", pem)
    write_hosts(tmp_path, '[host."https://127.0.0.1:9"]\nclient = "both.pem"\n')
    assert "both.pem' cannot be read as a client certificate with its key" in verdict(ask(tmp_path))


def test_a_client_certificate_is_not_shown_to_a_token_server(tmp_path: Path, authority: Authority) -> None:
    """Which asks for one, and would accept it."""
    signer = certificates.Authority()
    pair = signer.client()
    write(tmp_path, "hosts/own.invalid/both.pem", pair.certificate + pair.key)
    context = authority.context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=signer.pem)
    with (
        serving(token_reply, context) as tokens,
        serving(FakeRegistry(IMAGE, f'Bearer realm="{tokens.url}/token"')) as server,
    ):
        write_hosts(tmp_path, f'[host."{server.url}"]\nclient = "both.pem"\n')
        check = ask(tmp_path, route=RegistryRoute(ca_file=str(authority.bundle)))
        assert tokens.received == []
    assert check.verdict is PullVerdict.UNKNOWN


@pytest.mark.parametrize("header", [r'"X-Key" = "a\r\nEvil: b"', r'"X\r\nEvil" = "b"', r'"a b" = "c"'])
def test_a_header_cannot_add_another(tmp_path: Path, header: str) -> None:
    with serving(FakeRegistry(IMAGE)) as server:
        write_hosts(tmp_path, f"server = '{server.url}'\n[header]\n{header}\n")
        assert ask(tmp_path).verdict is PullVerdict.UNKNOWN
    assert server.received == []


def test_a_file_with_very_many_hosts_is_not_followed(tmp_path: Path) -> None:
    write_hosts(tmp_path, "".join(f'[host."https://h{number}.invalid"]\n' for number in range(101)))
    found = find_endpoints(NAME, MirrorPlaces(hosts_dir=str(tmp_path / "hosts")))
    assert found is not None
    assert "more than 100 hosts" in found.problem
