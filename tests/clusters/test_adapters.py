"""What every adapter promises, each held to it against a real server over TLS."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from keyferry.errors import ClusterAuthError, KeyferryError
from support.adapters_under_test import DRIVERS, AsyncDriver, Driver, Reply
from support.api_server import LOOPBACK, ApiServer, running_proxy
from support.certificates import Authority, Pair, key_pem
from support.kube import OTHER, TOKEN, Kube, credential, pair_fields, watch_writes
from support.plugins import PATIENCE_SECONDS, wait_until, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

PATH = "/api/v1/namespaces"

Drive = Callable[..., Driver]


@pytest.fixture(params=DRIVERS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> type[Driver]:
    """The adapter that is tested."""
    found: type[Driver] = request.param
    return found


# For what a session sets when it makes a client itself, with the current version of its library.
made_by_the_session = pytest.mark.parametrize(
    "kind",
    [kind for kind in DRIVERS if kind.rotates and kind.name != "aiohttp-3.9"],
    ids=lambda kind: kind.name,
    indirect=True,
)
# For what a door does that owns its connections; with httpx_auth alone that is its user's business.
owns_connections = pytest.mark.parametrize(
    "kind", [kind for kind in DRIVERS if kind.rotates], ids=lambda kind: kind.name, indirect=True
)


@pytest.fixture
def drive(kind: type[Driver], kube: Kube) -> Generator[Drive]:
    """Makes a driver on the kubeconfig as it is now."""
    made: list[Driver] = []

    def make(*, retries: bool = True) -> Driver:
        made.append(kind(kube.session(retries=retries)))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


def outcome(make: Callable[[], Driver], path: str = PATH) -> Reply | BaseException:
    """What comes of one request by a new driver, whatever it is."""
    try:
        return make().get(path)
    except Exception as error:  # noqa: BLE001 - each library has its own
        return error


def chain(error: object) -> str:
    """Everything an error and those behind it say."""
    parts = []
    while isinstance(error, BaseException):
        parts.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__ or getattr(error, "reason", None)
    return "\n".join(parts)


@owns_connections
def test_making_a_client_runs_nothing(drive: Drive, kube: Kube) -> None:
    drive()
    assert kube.runs() == 0


# What a request carries.


def test_token_is_sent(drive: Drive, kube: Kube, server: ApiServer) -> None:
    driver = drive()
    assert [driver.get(PATH).status for _ in range(3)] == [200] * 3
    assert [seen.authorization for seen in server.seen] == [f"Bearer {TOKEN}"] * 3
    assert kube.runs() == 1


def test_certificate_is_shown(drive: Drive, kube: Kube, server: ApiServer, authority: Authority) -> None:
    pair = authority.client()
    kube.answer(credential(pair=pair))
    server.serials = {pair.serial}
    driver = drive()
    assert [driver.get(PATH).status for _ in range(2)] == [200, 200]
    assert [(seen.serial, seen.authorization) for seen in server.seen] == [(pair.serial, "")] * 2
    assert kube.runs() == 1


def test_token_and_certificate_go_together(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    pair = authority.client()
    kube.answer(credential(TOKEN, pair))
    server.serials, server.needs_both = {pair.serial}, True
    assert drive().get(PATH).status == 200


@owns_connections
def test_answer_that_has_ended_already_serves_one_request(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    """One run a request, and never a part of one answer beside a part of another."""
    first, second = authority.client(), authority.client()
    kube.answer(credential(TOKEN, first, seconds=-1), credential(OTHER, second, seconds=-1))
    server.always = 200
    driver = drive()
    assert [driver.get(PATH).status for _ in range(2)] == [200, 200]
    assert [(seen.token, seen.serial) for seen in server.seen] == [
        (TOKEN, first.serial),
        (OTHER, second.serial),
    ]
    assert kube.runs() == 2


def test_session_as_users_load_it_works(kind: type[Driver], kube: Kube) -> None:
    driver = kind(kube.load())
    try:
        assert driver.get(PATH).status == 200
    finally:
        driver.close()


def test_token_file_is_read_again(drive: Drive, kube: Kube, server: ApiServer, authority: Authority) -> None:
    path = kube.folder / "token"
    path.write_text(f"{TOKEN}\n", encoding="utf-8")
    kube.write(server.url, ca=authority.pem, user={"tokenFile": str(path)})
    driver = drive()
    assert driver.get(PATH).status == 200
    path.write_text(f"{OTHER}\n", encoding="utf-8")
    server.tokens = {OTHER}
    kube.clock.step(61)
    assert driver.get(PATH).status == 200


def test_basic_auth_is_sent(drive: Drive, kube: Kube, server: ApiServer, authority: Authority) -> None:
    kube.write(server.url, ca=authority.pem, user={"username": "jo", "password": "pässword:x"})
    server.logins = {"jo:pässword:x"}
    assert drive().get(PATH).status == 200


def test_static_certificate_is_shown(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    pair = authority.client()
    kube.write(server.url, ca=authority.pem, user=pair_fields(pair))
    server.serials = {pair.serial}
    assert drive().get(PATH).status == 200


def test_impersonation_is_said_once_with_each_value_in_the_retry_too(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    acting = {"as": "jane", "as-groups": ["devs", "ops"], "as-user-extra": {"scopes": ["a", "b"]}}
    kube.write(server.url, ca=authority.pem, user=kube.exec_user() | acting)
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    drive().get(PATH)
    for seen, token in zip(server.seen, (TOKEN, OTHER), strict=True):
        assert seen.all("Authorization") == [f"Bearer {token}"]
        assert seen.all("Impersonate-User") == ["jane"]
        assert seen.all("Impersonate-Group") == ["devs", "ops"]
        assert seen.all("Impersonate-Extra-scopes") == ["a", "b"]


def test_own_impersonation_goes_before_that_of_the_kubeconfig(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    kube.write(server.url, ca=authority.pem, user=kube.exec_user() | {"as": "jane", "as-groups": ["devs"]})
    drive().get(PATH, headers={"Impersonate-User": "jo"})
    (seen,) = server.seen
    assert (seen.all("Impersonate-User"), seen.all("Impersonate-Group")) == (["jo"], [])


def test_token_beyond_ascii_is_sent_as_it_is(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential("tökén"))
    drive().get(PATH)
    assert server.seen[0].token.encode("latin-1").decode() == "tökén"


@made_by_the_session
def test_compression_can_be_disabled_by_the_cluster(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    kube.write(server.url, ca=authority.pem, cluster={"disable-compression": True})
    drive().get(PATH)
    assert server.seen[0].all("Accept-Encoding") == ["identity"]


def test_request_with_its_own_authorization_is_left_alone(
    drive: Drive, kube: Kube, server: ApiServer
) -> None:
    driver = drive()
    runs = kube.runs()
    server.tokens = {OTHER}
    assert driver.get(PATH, headers={"Authorization": f"Bearer {OTHER}"}).status == 200
    assert driver.get(PATH, headers={"Authorization": "Bearer stale"}).status == 401
    assert [seen.token for seen in server.seen] == [OTHER, "stale"]
    assert kube.runs() == runs


def test_first_certificate_is_shown_after_a_request_that_had_none(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    pair = authority.client()
    kube.answer(credential(pair=pair))
    server.serials = {pair.serial}
    driver = drive()
    driver.get(PATH, headers={"Authorization": f"Bearer {TOKEN}"})
    assert driver.get(PATH).status == 200
    assert kube.runs() == 1


# When the plugin is run again.


def test_expiry_causes_one_more_run(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN, seconds=100), credential(OTHER, seconds=1000))
    server.tokens = {TOKEN, OTHER}
    driver = drive()
    driver.get(PATH)
    kube.clock.step(100)
    driver.get(PATH)
    assert kube.runs() == 1
    kube.clock.step(1)
    assert [driver.get(PATH).status for _ in range(3)] == [200] * 3
    assert [seen.token for seen in server.seen] == [TOKEN] * 2 + [OTHER] * 3
    assert kube.runs() == 2


def test_refused_token_is_renewed_and_the_request_sent_again(
    drive: Drive, kube: Kube, server: ApiServer
) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    driver = drive()
    assert [driver.get(PATH).status for _ in range(3)] == [200] * 3
    assert [(seen.token, seen.status) for seen in server.seen] == [(TOKEN, 401)] + [(OTHER, 200)] * 3
    assert kube.runs() == 2


def test_server_that_always_refuses_is_asked_twice_a_request(
    drive: Drive, kube: Kube, server: ApiServer
) -> None:
    server.always = 401
    driver = drive()
    for requests in (1, 2, 3):
        assert driver.get(PATH).status == 401
        assert (kube.runs(), len(server.seen)) == (1 + requests, 2 * requests)


def test_body_is_sent_again(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    document = {"kind": "ConfigMap", "data": {"key": "x" * 20_000}}
    reply = drive().post(PATH, document)
    assert (reply.status, json.loads(reply.body)) == (200, document)
    assert [json.loads(seen.body) for seen in server.seen] == [document, document]
    assert [seen.status for seen in server.seen] == [401, 200]


def test_without_retries_the_next_request_has_the_new_token(
    drive: Drive, kube: Kube, server: ApiServer
) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    server.tokens = {OTHER}
    driver = drive(retries=False)
    assert [driver.get(PATH).status for _ in range(2)] == [401, 200]
    assert kube.runs() == 2


def test_failing_renewal_leaves_the_servers_word(drive: Drive, kube: Kube, server: ApiServer) -> None:
    driver = drive()
    driver.get(PATH)
    kube.answer()
    server.always = 401
    assert driver.get(PATH).status == 401
    assert (kube.runs(), len(server.seen)) == (2, 2)
    server.always = 0
    assert driver.get(PATH).status == 200


def test_other_failures_of_the_server_run_nothing(drive: Drive, kube: Kube, server: ApiServer) -> None:
    driver = drive()
    for status in (403, 404, 500, 503):
        assert driver.get(f"/status/{status}").status == status
    assert kube.runs() == 1
    assert {seen.token for seen in server.seen} == {TOKEN}


def test_many_first_requests_cause_one_run(drive: Drive, kube: Kube) -> None:
    kube.wait(0.2)
    replies = drive().at_once(PATH, 20)
    assert [reply for reply in replies if not isinstance(reply, Reply) or reply.status != 200] == []
    assert (len(replies), kube.runs()) == (20, 1)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in DRIVERS if issubclass(kind, AsyncDriver)],
    ids=lambda kind: kind.name,
    indirect=True,
)
def test_first_request_does_not_block_the_event_loop(drive: Drive, kube: Kube) -> None:
    """The plugin ends only after something else was done on the loop."""
    script = f"cd {kube.folder}\necho run >>runs\nuntil [ -e go ]; do sleep 0.01; done\ncat answer\n"
    write_executable(kube.folder / "plugin", f"#!/bin/sh\n{script}")
    driver = drive()
    assert isinstance(driver, AsyncDriver)
    request = driver.begin(driver.send("GET", PATH, None, None))
    wait_until(kube.runs, "the plugin to run")
    driver.run(asyncio.sleep(0))
    (kube.folder / "go").touch()
    assert request.result(PATIENCE_SECONDS).status == 200


def test_many_refusals_cause_one_run(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN), credential(OTHER))
    driver = drive()
    driver.get(PATH)
    server.tokens = {OTHER}
    replies = driver.at_once(PATH, 20)
    assert [reply for reply in replies if not isinstance(reply, Reply) or reply.status != 200] == []
    assert kube.runs() == 2


def test_failing_plugin_is_not_run_in_a_loop(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN, seconds=10))
    driver = drive()
    assert driver.get(PATH).status == 200
    kube.answer()
    kube.clock.step(11)
    for _ in range(20):
        with pytest.raises(ClusterAuthError, match=r"no credential: plugin .* exited with status 1"):
            driver.get(PATH)
    assert kube.runs() <= 1 + 3
    kube.answer(credential(TOKEN))
    kube.clock.step(60)
    assert driver.get(PATH).status == 200
    assert len(server.seen) == 2


def test_plugin_that_never_worked_says_why(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer()
    error = outcome(drive)
    assert isinstance(error, KeyferryError)
    assert "exited with status 1" in str(error)
    assert server.seen == []


# Which connection a request goes over.


def test_token_rotation_keeps_the_connection(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN, seconds=100), credential(OTHER), credential("third"))
    server.tokens = {TOKEN, OTHER}
    driver = drive()
    driver.get(PATH)
    kube.clock.step(101)
    driver.get(PATH)
    server.tokens = {"third"}
    assert driver.get(PATH).status == 200
    assert [seen.token for seen in server.seen] == [TOKEN, OTHER, OTHER, "third"]
    assert server.connections() == [1] * 4


def test_watch_goes_on_over_a_token_rotation(drive: Drive, kube: Kube, server: ApiServer) -> None:
    kube.answer(credential(TOKEN, seconds=100), credential(OTHER))
    server.tokens = {TOKEN, OTHER}
    driver = drive()
    lines = driver.stream("/watch")
    server.push("one")
    assert next(lines) == "one"
    kube.clock.step(101)
    assert driver.get(PATH).status == 200
    server.push("two")
    assert next(lines) == "two"
    server.end_watch()
    assert list(lines) == []


@owns_connections
def test_certificate_rotation_replaces_the_connections(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    driver, new = rotating(drive, kube, server, authority)
    driver.get(PATH)
    lines = driver.stream("/watch")
    server.push("one")
    assert next(lines) == "one"
    assert driver.get(PATH).status == 200
    idle, watching = server.connections()[2], server.connections()[1]
    assert idle != watching

    kube.clock.step(101)
    server.serials = {new.serial}
    assert driver.get(PATH).status == 200
    assert server.seen[-1].serial == new.serial
    assert server.connections()[-1] not in (idle, watching)
    wait_until(lambda: idle not in server.open, "the idle connection to be closed")

    assert watching in server.open
    server.push("two")
    assert next(lines) == "two"
    server.end_watch()
    assert list(lines) == []
    wait_until(lambda: watching not in server.open, "the connection of the watch to be closed")
    assert driver.get(PATH).status == 200
    assert server.connections()[-1] == server.connections()[-2]
    assert kube.runs() == 2


@owns_connections
def test_refused_certificate_is_replaced_for_the_retry(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    driver, new = rotating(drive, kube, server, authority)
    driver.get(PATH)
    server.serials = {new.serial}
    assert driver.get(PATH).status == 200
    assert [seen.status for seen in server.seen] == [200, 401, 200]
    assert server.seen[-1].serial == new.serial
    wait_until(lambda: list(server.open) == server.connections()[-1:], "the old connection to be closed")
    assert kube.runs() == 2


@owns_connections
def test_certificate_that_goes_away_is_not_shown_again(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    driver, _ = rotating(drive, kube, server, authority)
    driver.get(PATH)
    kube.answer(credential(TOKEN))
    kube.clock.step(101)
    assert driver.get(PATH).status == 200
    assert [seen.serial is None for seen in server.seen] == [False, True]


@owns_connections
def test_rotation_amid_many_requests_loses_none(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    driver, new = rotating(drive, kube, server, authority)
    server.serials.add(new.serial)
    assert {status(reply) for reply in driver.at_once(PATH, 20)} == {200}
    kube.clock.step(101)
    assert {status(reply) for reply in driver.at_once(PATH, 20)} == {200}
    assert {seen.serial for seen in server.seen[20:]} == {new.serial}
    assert kube.runs() == 2


def test_connections_that_the_server_cut_are_replaced(drive: Drive, server: ApiServer) -> None:
    driver = drive()
    driver.get(PATH)
    server.drop_connections()
    wait_until(lambda: not server.open, "the connections to end")
    assert driver.get(PATH).status == 200


@pytest.mark.parametrize("path", ["/drop", "/truncated"])
def test_answer_that_is_cut_short_is_an_error(drive: Drive, kube: Kube, path: str) -> None:
    error = outcome(drive, path)
    assert isinstance(error, Exception)
    assert TOKEN not in chain(error)
    assert kube.runs() == 1


def test_close_ends_every_connection(kind: type[Driver], kube: Kube, server: ApiServer) -> None:
    driver = kind(kube.session())
    driver.at_once(PATH, 5)
    driver.close()
    wait_until(lambda: not server.open, "the connections to end")


def status(reply: Reply | BaseException) -> object:
    """The status of a reply, or the error there is instead."""
    return reply.status if isinstance(reply, Reply) else reply


def rotating(drive: Drive, kube: Kube, server: ApiServer, authority: Authority) -> tuple[Driver, Pair]:
    """A driver whose certificate ends after 100 seconds, and the certificate that follows."""
    old, new = authority.client(), authority.client()
    kube.answer(credential(pair=old, seconds=100), credential(pair=new))
    server.serials = {old.serial}
    driver = drive()
    return driver, new


# Which servers are believed, and what others get to see.


def test_authority_that_did_not_sign_is_refused(drive: Drive, kube: Kube, server: ApiServer) -> None:
    """Neither another one nor the system vouches for the server."""
    for ca in (Authority().pem, ""):
        kube.write(server.url, ca=ca)
        assert_refused(drive, server)


def test_wrong_name_of_the_server_is_refused(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    """That of the URL, or the one that tls-server-name sets in its place."""
    with ApiServer(authority, "api.internal") as other:
        kube.write(other.url, ca=authority.pem)
        assert_refused(drive, other)
    kube.write(server.url, ca=authority.pem, cluster={"tls-server-name": "api.internal"})
    assert_refused(drive, server)


def test_common_name_is_no_name_of_the_server(drive: Drive, kube: Kube, authority: Authority) -> None:
    """As in Go: only subject alternative names count, and the error says so."""
    with ApiServer(authority, "localhost") as server:
        server.tokens = {TOKEN}
        kube.write(f"https://localhost:{server.port}", ca=authority.pem)
        assert drive().get(PATH).status == 200
    with ApiServer(authority, pair=authority.server_called("localhost")) as server:
        kube.write(f"https://localhost:{server.port}", ca=authority.pem)
        assert_refused(drive, server)
        shown = chain(outcome(drive))
    assert "certificate is not valid for 'localhost'; only its subject alternative names count" in shown


def test_tls_server_name_is_what_counts(drive: Drive, kube: Kube, authority: Authority) -> None:
    with ApiServer(authority, "api.internal") as server:
        server.tokens = {TOKEN}
        kube.write(server.url, ca=authority.pem, cluster={"tls-server-name": "api.internal"})
        assert drive().get(PATH).status == 200


def test_insecure_skips_the_check(drive: Drive, kube: Kube, authority: Authority) -> None:
    pair = authority.client()
    kube.answer(credential(pair=pair))
    with ApiServer(authority, "elsewhere") as server:
        server.serials = {pair.serial}
        kube.write(server.url, cluster={"insecure-skip-tls-verify": True})
        assert drive().get(PATH).status == 200


def test_encrypted_key_is_a_clear_error(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    pair = authority.client()
    key = key_pem(load_pem_private_key(pair.key.encode(), None), "pkcs8", "pass")  # type: ignore[arg-type] # an EC key
    kube.write(server.url, ca=authority.pem, user=pair_fields(Pair(pair.certificate, key)))
    error = outcome(drive)
    assert isinstance(error, ClusterAuthError)
    assert "the client key or its certificate is encrypted, expected PEM without a passphrase" in str(error)
    assert error.kubernetes_text == "tls: failed to parse private key"
    assert not any(line in chain(error) for line in key.splitlines()[1:-1] if line)
    assert server.seen == []


def test_redirect_to_another_host_carries_nothing(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    pair = authority.client()
    kube.answer(credential(TOKEN, pair))
    with ApiServer(authority, "localhost") as other:
        other.tokens = {TOKEN}
        server.redirect_to = f"https://localhost:{other.port}/stolen"
        outcome(drive, "/redirect")
        assert [seen.status for seen in server.seen] == [302]
        assert [seen.authorization for seen in other.seen if seen.authorization] == []
    assert kube.runs() == 1


@owns_connections
def test_redirect_to_another_port_is_not_followed(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    """Who listens on another port of the same host may be anybody."""
    kube.answer(credential(TOKEN, authority.client()))
    with ApiServer(authority) as other:
        other.tokens = {TOKEN}
        server.redirect_to = f"{other.url}/stolen"
        outcome(drive, "/redirect")
        assert [seen.status for seen in server.seen] == [302]
        assert (other.seen, list(other.open)) == ([], [])


def test_redirect_on_the_same_host_is_followed(drive: Drive, server: ApiServer) -> None:
    server.redirect_to = f"{server.url}/moved"
    reply = drive().get("/redirect")
    assert (reply.status, json.loads(reply.body)["path"]) == (200, "/moved")
    assert [seen.token for seen in server.seen] == [TOKEN, TOKEN]


def test_server_below_a_path_is_reached_there(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    kube.write(f"{server.url}/k8s/clusters/c1", ca=authority.pem)
    assert drive().get(f"{PATH}?limit=1").status == 200
    assert [seen.path for seen in server.seen] == [f"/k8s/clusters/c1{PATH}?limit=1"]


def assert_refused(drive: Drive, server: ApiServer) -> None:
    """A request ends in an error that says what was wrong, and the server learns nothing."""
    error = outcome(drive)
    assert isinstance(error, Exception)
    assert "certificate" in chain(error).lower()
    assert TOKEN not in chain(error)
    assert server.seen == []


# The way through a proxy.


@owns_connections
def test_proxy_of_the_cluster_is_used(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    with running_proxy() as proxy:
        kube.write(
            server.url, ca=authority.pem, cluster={"proxy-url": f"http://jo:proxy-pass@{proxy.address}"}
        )
        assert drive().get(PATH).status == 200
        assert proxy.told[0].startswith(f"CONNECT {LOOPBACK}:{server.port} ")
        assert "proxy-authorization: basic " in proxy.told[0].lower()
        assert TOKEN not in "".join(proxy.told)


@owns_connections
def test_proxy_behind_tls_is_judged_by_the_same_rules(
    drive: Drive, kube: Kube, server: ApiServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is trusted if the system trusts its authority; its common name does not count."""
    trusted = kube.folder / "system.pem"
    trusted.write_text(authority.pem, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    for pair, status in ((authority.server("localhost"), 200), (authority.server_called("localhost"), 0)):
        with running_proxy(pair) as proxy:
            url = f"https://localhost:{proxy.port}"
            kube.write(server.url, ca=authority.pem, cluster={"proxy-url": url})
            found = outcome(drive)
            assert (found.status if isinstance(found, Reply) else 0) == status, chain(found)
            assert len(proxy.told) == (1 if status else 0)


def test_proxies_of_the_environment_are_not_used(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_proxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        assert drive().get(PATH).status == 200
        assert proxy.told == []


# Where secrets do not go.


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Every place where a program writes when it is not told where, each of them empty."""
    made = [tmp_path / name for name in ("tmp", "home", "here")]
    for folder in made:
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(made[0]))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("HOME", str(made[1]))
    monkeypatch.chdir(made[2])
    # The first look for a place is a trial by writing there.
    assert tempfile.gettempdir() == str(made[0])
    return made


def test_nothing_is_written_to_any_file(
    folders: list[Path], drive: Drive, kube: Kube, server: ApiServer, authority: Authority
) -> None:
    old, new = authority.client(), authority.client()
    kube.answer(credential(TOKEN, old, seconds=100), credential(TOKEN, new))
    written = watch_writes(*folders)
    driver = drive()
    driver.get(PATH)
    kube.clock.step(101)
    driver.get(PATH)
    assert written() == []
    assert [list(folder.iterdir()) for folder in folders] == [[], [], []]
    assert server.seen[0].serial == old.serial


def test_no_secret_is_logged_or_shown(
    drive: Drive,
    kube: Kube,
    server: ApiServer,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    old, new = authority.client(), authority.client()
    kube.answer(credential(TOKEN, old, seconds=100), credential(OTHER, new))
    server.tokens = {OTHER}
    driver = drive()
    driver.get(PATH)
    driver.post(PATH, {"a": 1})
    kube.answer()
    server.always = 401
    driver.get(PATH)
    shown = caplog.text + "".join(repr(record.__dict__) for record in caplog.records)
    shown += "".join(repr(value) for value in vars(driver).values())
    for secret in (TOKEN, OTHER, *(line for pair in (old, new) for line in pair.key.splitlines()[1:-1])):
        assert secret not in shown


def test_no_secret_is_in_errors(
    drive: Drive, kube: Kube, server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kube.answer(credential(TOKEN, seconds=10), credential(f"{TOKEN}\r\nX-Injected: 1"))
    driver = drive()
    driver.get(PATH)
    kube.clock.step(11)
    with pytest.raises(ClusterAuthError, match="control character") as caught:
        driver.get(PATH)
    assert TOKEN not in chain(caught.value) + caplog.text
    assert len(server.seen) == 1
