"""keyferry-federate among hostile images, annotations, servers, tokens and files: a token goes where the file says."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from keyferry.api.meta import parse_duration
from support.fake_cloud import Authority, Received, Reply, serving
from support.federation import (
    AUDIENCE,
    CONNECTION,
    EXAMPLES,
    HOUR,
    ISSUER,
    Federation,
    account_claims,
    account_token,
    check_subject,
    example_federation,
    federation,
    issued,
    rule_of,
    sign,
    write_config,
)
from support.parts import root
from support.reference import Answer, ask_image

JFROG = "team.jfrog.io"
IMAGE = f"{JFROG}/docker/app"
SOMEONE = 4711  # a user that is neither root nor this one
LOGIN = Reply(document={"access_token": "opaque-1", "expires_in": HOUR, "username": "u"})


def failed(answer: Answer, *words: str) -> None:
    """A message, no response, no trace."""
    assert (answer.status, answer.stdout) == (1, ""), answer.stdout
    for word in words:
        assert word in answer.stderr, answer.stderr
    assert "Traceback" not in answer.stderr
    assert "eyJ" not in answer.stderr


def kept_seconds(answer: Answer) -> float:
    """The cacheDuration of a response."""
    return parse_duration(str(answer.document["cacheDuration"])) / 1e9


@pytest.fixture
def jfrog(tmp_path: Path) -> Iterator[Federation]:
    """A server that answers with a login, whatever it is asked."""
    with federation(tmp_path, lambda _: LOGIN, JFROG) as world:
        yield world


# The subject


SUBJECTS: dict[str, tuple[Callable[[], str], str]] = {
    "another-audience": (lambda: account_token(aud=["other.example.com"]), "aud is 'other.example.com', expected"),
    "two-audiences": (lambda: account_token(aud=[AUDIENCE, "other"]), "has 2 audiences, expected one"),
    "no-audience": (lambda: account_token(aud=None), "has no audiences, expected one"),
    "an-empty-list": (lambda: account_token(aud=[]), "has 0 audiences, expected one"),
    "the-issuer": (lambda: account_token(aud=[ISSUER]), "for the API server itself"),
    "the-issuer-with-a-slash": (lambda: account_token(aud=[f"{ISSUER}/"]), "for the API server itself"),
    "the-api-server": (lambda: account_token(aud=["https://kubernetes.default.svc"]), "for the API server itself"),
    "the-api-server-in-full": (
        lambda: account_token(aud=["https://kubernetes.default.svc.cluster.local"]),
        "for the API server itself",
    ),
    "the-api-server-without-a-scheme": (
        lambda: account_token(aud=["kubernetes.default.svc"]), "for the API server itself"
    ),
    "another-issuer": (lambda: account_token(iss="https://evil.example.com"), "iss is 'https://evil.example.com'"),
    "an-issuer-with-a-slash": (lambda: account_token(iss=f"{ISSUER}/"), "the subject token's iss is"),
    "no-issuer": (lambda: account_token(iss=None), "the subject token's iss is ''"),
    "expired": (lambda: account_token(exp=int(time.time()) - 1), "has expired"),
    "no-expiry": (lambda: account_token(exp=None), "has expired or has no expiry"),
    "an-expiry-in-words": (lambda: unsigned(exp="never"), "has expired or has no expiry"),
    "a-boolean-expiry": (lambda: unsigned(exp=True), "has expired or has no expiry"),
    "an-endless-expiry": (lambda: unsigned(exp=10**400), "has expired or has no expiry"),
    "not-yet-valid": (lambda: account_token(nbf=int(time.time()) + HOUR), "is not valid yet"),
    "no-token": (lambda: "", "the kubelet sent no service account token"),
    "no-jwt": (lambda: "marked-opaque-token", "is not a JSON web token"),
    "a-line-break": (lambda: f"{account_token()}\r\nX: y", "is not a JSON web token"),
    "aud-twice": (lambda: repeated("aud"), "it has a member more than once"),
    "alg-twice": (lambda: repeated_in_head("alg"), "it has a member more than once"),
    "iss-twice": (lambda: repeated("iss"), "it has a member more than once"),
    "claims-that-are-no-object": (lambda: "e30.W10.c2ln", "is not a JSON web token"),
    "an-issuer-with-escapes": (lambda: account_token(iss="\x1b[2J\nevil"), "the subject token's iss is"),
    "a-long-token": (lambda: account_token(padding="x" * 70_000), "is not a JSON web token"),
}  # fmt: skip


def unsigned(**changes: object) -> str:
    """A token with claims that a library refuses to sign."""
    head, _, _ = account_token().split(".")
    text = json.dumps(account_claims(**changes)).encode()
    return f"{head}.{base64.urlsafe_b64encode(text).rstrip(b'=').decode()}.c2ln"


def repeated(name: str) -> str:
    """A token that has a claim twice: another one first, then that of the config."""
    head, _, _ = account_token().split(".")
    text = json.dumps(account_claims()).replace("{", f'{{"{name}": "other.example.com", ', 1)
    return f"{head}.{base64.urlsafe_b64encode(text.encode()).rstrip(b'=').decode()}.c2ln"


def repeated_in_head(name: str) -> str:
    """A token that has a member of its header twice."""
    head, claims, signature = account_token().split(".")
    text = base64.urlsafe_b64decode(head + "==").decode().replace("{", f'{{"{name}": "none", ', 1)
    return f"{base64.urlsafe_b64encode(text.encode()).rstrip(b'=').decode()}.{claims}.{signature}"


@pytest.mark.parametrize("case", SUBJECTS)
@pytest.mark.parametrize("preset", ["jfrog", "passthrough"])
def test_a_subject_that_is_not_the_configured_one_is_sent_nowhere(
    case: str, preset: str, jfrog: Federation
) -> None:
    """Not to a server, and not to the kubelet as a password."""
    make, words = SUBJECTS[case]
    rule = rule_of(preset, registries=[JFROG])
    failed(jfrog.ask(IMAGE, rule, token=make()), words)
    assert jfrog.server.received == []
    assert jfrog.proxy.asked == []


@pytest.mark.parametrize(
    "audience",
    [
        ISSUER,
        "kubernetes.default.svc",
        "https://kubernetes.default.svc.k8s.corp",
        "http://kubernetes.default.svc:443",
        "HTTPS://Kubernetes.Default.Svc./x",
    ],
)
def test_a_config_cannot_ask_for_the_api_servers_audience(audience: str, jfrog: Federation) -> None:
    rule = rule_of("jfrog", subject={"audience": audience, "issuer": ISSUER})
    failed(jfrog.ask(IMAGE, rule, token=account_token(aud=[audience])), "is one for the API server")
    assert jfrog.server.received == []


# The image


IMAGES = [
    "team.jfrog.io.evil.example.com/app", "evil.example.com/team.jfrog.io/app", "team.jfrog.io:443/app",
    "team.jfrog.io:5000/app", "TEAM.jfrog.io/app", "team.jfrog.io./app", "xteam.jfrog.io/app", "jfrog.io/app",
    "team.jfrog.io@evil.example.com/app", "user@team.jfrog.io/app", "team.jfrog.io%2fapp/x", "team.jfrog.i\u043e/app",
    "team.jfrog.io\\evil/app", " team.jfrog.io/app", "[::1]/app", "docker.io/library/app", "app",
]  # fmt: skip


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_of_another_registry_is_refused(image: str, jfrog: Federation) -> None:
    """However broad matchImages is: only a host that a rule lists, to the letter, gets a login."""
    failed(jfrog.ask(image, rule_of("jfrog")), "no rule is for the registry")
    assert jfrog.proxy.asked == []


def test_the_login_is_for_the_images_own_host_and_port(tmp_path: Path) -> None:
    """Never for a wider key, whatever the server says."""
    reply = {"access_token": "t", "expires_in": HOUR, "username": "u", "auth": {"*": 1}, "registry": "*.io"}
    with federation(tmp_path, lambda _: Reply(document=reply), JFROG) as world:
        rule = rule_of(
            "jfrog", registries=[JFROG, f"{JFROG}:5000"], params={"provider_name": "k", "host": JFROG}
        )
        for host in (JFROG, f"{JFROG}:5000"):
            assert list(world.ask(f"{host}/docker/app", rule).auth) == [host]


# The servers


def test_a_challenge_and_the_body_of_a_refusal_lead_nowhere(tmp_path: Path) -> None:
    """A realm, a link and a token endpoint in an answer are not asked."""
    away = "https://evil.example.com/token"
    headers = {
        "WWW-Authenticate": f'Bearer realm="{away}",service="x"',
        "Location": away,
        "Link": f"<{away}>",
    }
    reply = Reply(401, {"error": "x", "token_endpoint": away}, headers=headers)
    with federation(tmp_path, lambda _: reply, JFROG, "evil.example.com") as world:
        failed(world.ask(IMAGE, rule_of("jfrog")), "refused with status 401")
        assert world.proxy.asked == [f"{JFROG}:443"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["https://evil.example.com/", f"https://{JFROG}/other", "http://127.0.0.1/"])
def test_no_redirect_is_followed(status: int, to: str, tmp_path: Path) -> None:
    """Some of them would send the token again."""
    with federation(
        tmp_path, lambda _: Reply(status, headers={"Location": to}), JFROG, "evil.example.com"
    ) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"))
        failed(answer, f"redirect (status {status}), which is never followed")
        assert "evil" not in answer.stderr
        assert len(world.server.received) == 1


@pytest.mark.parametrize("names", [("other.example.com",), ()], ids=["another-name", "common-name-only"])
def test_a_server_with_another_name_gets_no_token(names: tuple[str, ...], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.context(*names, common_name="127.0.0.1")
    with serving(lambda _: LOGIN, context) as server:
        failed(ask_loopback(server.port, tmp_path, authority.bundle), "certificate")
        assert server.received == []


def ask_loopback(
    port: int, folder: Path, bundle: Path, *, args: Sequence[str] = (), **changes: object
) -> Answer:
    """Ask with a server on loopback as the registry's host."""
    host = f"127.0.0.1:{port}"
    config = write_config(folder / "c.json", rule_of("jfrog", registries=[host], **changes))
    env = {"SSL_CERT_FILE": str(bundle)}
    words = [f"--config={config}", *args]
    return ask_image("federate", f"{host}/app", args=words, env=env, token=account_token())


def test_trust_is_the_systems_or_the_files_and_never_off(tmp_path: Path) -> None:
    """An authority of the rule's own is taken in place of the system's; there is no setting to trust anyone."""
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    own, other = Authority(tmp_path / "own"), Authority(tmp_path / "other")
    with serving(lambda _: LOGIN, own.context("127.0.0.1")) as server:
        failed(ask_loopback(server.port, tmp_path, other.bundle), "its certificate is not trusted")
        assert server.received == []
        assert ask_loopback(server.port, tmp_path, other.bundle, caFile=str(own.bundle)).auth
        failed(ask_loopback(server.port, tmp_path, own.bundle, caFile=str(other.bundle)), "not trusted")
        failed(ask_loopback(server.port, tmp_path, other.bundle, insecure=True), "insecure: unknown field")
        assert len(server.received) == 1


def test_plain_http_is_refused_even_on_this_machine(tmp_path: Path) -> None:
    with serving(lambda _: LOGIN) as server:
        own = {
            "calls": [{"url": f"{server.url}/token", "fields": {"t": "${subject}"}, "out": {"token": "/t"}}],
            "credentials": {"username": "u", "password": "${token}"},
        }
        rule = {key: value for key, value in rule_of("jfrog").items() if key not in ("preset", "params")}
        config = write_config(tmp_path / "c.json", {**rule, **own})
        answer = ask_image("federate", IMAGE, args=[f"--config={config}"], token=account_token())
        failed(answer, "c.json:15:11: rules[0].calls[0].url: expected an https:// URL\n")
        assert server.received == []


def test_attempts_are_counted(tmp_path: Path) -> None:
    with federation(tmp_path, lambda _: Reply(500), JFROG) as world:
        failed(world.ask(IMAGE, rule_of("jfrog")), "refused with status 500")
        assert len(world.server.received) == 3


def test_an_answer_of_more_than_a_megabyte_is_refused(tmp_path: Path) -> None:
    body = json.dumps({"access_token": "opaque-1", "username": "u", "x": "y" * (1 << 20)}).encode()
    with federation(tmp_path, lambda _: Reply(body=body), JFROG) as world:
        failed(world.ask(IMAGE, rule_of("jfrog")), "is longer than 1048576 bytes")


LIFETIMES: dict[str, tuple[str, str]] = {
    "negative": ("-5", "0s"),
    "zero": ("0", "0s"),
    "huge": ("1e400", "0s"),
    "many-digits": ("9" * 40, "0s"),
    "years": ("99999999999", "12h0m0s"),
    "words": ('"soon"', "0s"),
    "an-object": ("{}", "0s"),
    "true": ("true", "0s"),
    "a-fraction": ("100.5", "1m30s"),
    "twice": ('99999, "expires_in": 100', "1m30s"),
}


@pytest.mark.parametrize("case", LIFETIMES)
def test_a_lifetime_that_is_none_keeps_nothing(case: str, tmp_path: Path) -> None:
    """And the longest is half a day."""
    written, kept = LIFETIMES[case]
    body = f'{{"access_token": "opaque-1", "username": "u", "expires_in": {written}}}'.encode()
    with federation(tmp_path, lambda _: Reply(body=body), JFROG) as world:
        assert world.ask(IMAGE, rule_of("jfrog")).document["cacheDuration"] == kept


def test_a_token_is_not_kept_beyond_its_own_end(tmp_path: Path) -> None:
    """Whatever expires_in says."""
    reply = Reply(document={"access_token": issued(100), "username": "u", "expires_in": HOUR})
    with federation(tmp_path, lambda _: reply, JFROG) as world:
        kept = kept_seconds(world.ask(IMAGE, rule_of("jfrog")))
    assert 0 < kept <= 90


BODIES = {
    "nan": b'{"access_token": NaN, "username": "u"}',
    "bom": b'\xef\xbb\xbf{"access_token": "marked", "username": "u"}',
    "utf-16": '{"access_token": "marked", "username": "u"}'.encode("utf-16"),
    "two-documents": b'{"access_token": "marked", "username": "u"}{}',
    "trailing": b'{"access_token": "marked", "username": "u"} x',
    "yaml": b"access_token: marked\nusername: u\n",
    "deep": b'{"access_token":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "null-byte": b'{"access_token": "marked\\u0000", "username": "u"}',
    "lone-surrogate-in-user": b'{"access_token": "t", "username": "\\u0085"}',
    "a-list-for-text": b'{"access_token": ["marked"], "username": "u"}',
    "infinity": b'{"access_token": 1e999, "username": "u"}',
    "many-digits": b'{"access_token": ' + b"9" * 100 + b', "username": "u"}',
}


@pytest.mark.parametrize("case", BODIES)
def test_garbage_is_not_a_login(case: str, tmp_path: Path) -> None:
    with federation(tmp_path, lambda _: Reply(body=BODIES[case]), JFROG) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"))
    failed(answer)
    assert "marked" not in answer.stderr


def test_a_compressed_answer_is_not_unpacked(tmp_path: Path) -> None:
    """None was asked for, and a few bytes could become gigabytes."""
    body = gzip.compress(
        json.dumps({"access_token": "marked", "username": "u", "x": "y" * 10_000_000}).encode()
    )
    reply = Reply(body=body, headers={"Content-Encoding": "gzip"})
    with federation(tmp_path, lambda _: reply, JFROG) as world:
        failed(world.ask(IMAGE, rule_of("jfrog")), "not a JSON object")
        assert "gzip" not in world.server.received[0].headers.get("accept-encoding", "")


def test_a_server_that_sends_a_byte_now_and_then_ends_in_time(tmp_path: Path) -> None:
    """The time is for the whole of all calls, however lively a connection looks."""
    authority = Authority(tmp_path)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            with contextlib.suppress(OSError):
                client, _ = listener.accept()
                with authority.context("127.0.0.1").wrap_socket(client, server_side=True) as tls:
                    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                    while not stop.wait(0.05):
                        tls.sendall(b" ")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            port = listener.getsockname()[1]
            failed(
                ask_loopback(port, tmp_path, authority.bundle, args=["--timeout=1s"]), "no response in time"
            )
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


# The subject as a password


ECHOES: dict[str, Callable[[str], str]] = {
    "as-it-is": lambda token: token,
    "inside": lambda token: f"prefix-{token}-suffix",
    "base64": lambda token: base64.b64encode(token.encode()).decode(),
    "base64-of-more": lambda token: base64.urlsafe_b64encode(f"oauth:{token}".encode()).decode().rstrip("="),
    "base64-after-a-prefix": lambda token: "v1:" + base64.b64encode(token.encode()).decode(),
    "base64-between-others": lambda token: base64.b64encode(f"a:{token}:b".encode()).decode() + ".x",
    "base64-in-percent": lambda token: quote(base64.b64encode(token.encode()).decode(), safe=""),
    "hex": lambda token: f"0X{token.encode().hex().upper()}",
    "percent": lambda token: quote(token, safe="").replace(".", "%2E"),
}


@pytest.mark.parametrize("case", ECHOES)
@pytest.mark.parametrize("member", ["access_token", "username"])
def test_a_server_cannot_make_the_token_a_login(case: str, member: str, tmp_path: Path) -> None:
    """The kubelet compares the whole password alone, so the plugin looks into it."""
    token = account_token()
    document = {"access_token": "opaque-1", "username": "u", "expires_in": HOUR, member: ECHOES[case](token)}
    with federation(tmp_path, lambda _: Reply(document=document), JFROG) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"), token=token)
    failed(answer, "returned the subject token itself as a login")


@pytest.mark.parametrize("seconds", [30, 1000, 86400])
def test_a_token_passed_through_is_not_kept_longer_than_it_lives(seconds: int, jfrog: Federation) -> None:
    token = account_token(exp=int(time.time()) + seconds)
    long = {"from": ["exp"], "margin": "0%", "unknown": "10h"}
    answer = jfrog.ask(IMAGE, rule_of("passthrough", registries=[JFROG], lifetime=long), token=token)
    assert kept_seconds(answer) <= min(seconds, 12 * HOUR)
    assert answer.auth[JFROG][1] == token


# Annotations


ROBOT = {"robot": {"annotation": "quay.io/robot", "pattern": r"org\+[a-z&=%]+"}}
ROBOTS = {
    "another-org": "other+robot", "a-line-break": "org+robot\n", "a-header": "org+robot\r\nX-Evil: 1",
    "upper-case": "org+ROBOT", "empty": "", "a-prefix": "xorg+robot", "long": "org+" + "a" * 300,
    "an-escape": "org+robot\x1b[2J", "a-colon": "org+robot:x", "a-path": "org+robot/../../x", "spaces": "org+robot ",
}  # fmt: skip


@pytest.mark.parametrize("case", ROBOTS)
def test_an_annotation_that_does_not_match_as_a_whole_is_refused(case: str, tmp_path: Path) -> None:
    """And is not shown: whoever writes it would write the kubelet's log."""
    with example_federation(tmp_path, "quay") as world:
        annotations = {"quay.io/robot": ROBOTS[case], "other": "org+robot"}
        answer = world.ask("quay.example.com/app", rule_of("quay", params=ROBOT), annotations=annotations)
        failed(answer, "quay.io/robot")
        assert ROBOTS[case] == "" or ROBOTS[case] not in answer.stderr
        assert world.server.received == []


def test_an_annotation_that_matches_is_the_identity(tmp_path: Path) -> None:
    with example_federation(tmp_path, "quay") as world:
        answer = world.ask(
            "quay.example.com/app", rule_of("quay", params=ROBOT), annotations={"quay.io/robot": "org+robot"}
        )
        assert answer.auth["quay.example.com"][0] == "org+robot"
        args = [
            "--registry=quay.example.com",
            "--preset=quay",
            f"--audience={AUDIENCE}",
            f"--issuer={ISSUER}",
        ]
        args += [r"--param-annotation=robot=quay.io/robot=org\+[a-z]+"]
        assert world.ask("quay.example.com/app", args=args, annotations={"quay.io/robot": "org+robot"}).auth


def test_an_annotation_is_one_value_however_it_is_written(tmp_path: Path) -> None:
    """It cannot add fields to a form, or members to JSON."""
    hostile = 'x&grant_type=evil&profile_id="%26}'
    received: list[Received] = []

    def handle(request: Received) -> Reply:
        received.append(request)
        return Reply(document={"access_token": "opaque-1", "expires_in": HOUR, "username": "u"})

    with federation(tmp_path, handle, "iam.cloud.ibm.com", JFROG) as world:
        source = {"annotation": "x/y", "pattern": ".*"}
        rule = rule_of("ibm", params={"profile_name": source})
        assert world.ask("de.icr.io/app", rule, annotations={"x/y": hostile}).auth
        rule = rule_of("jfrog", params={"provider_name": source})
        assert world.ask(IMAGE, rule, annotations={"x/y": hostile}).auth
    form = received[0].form
    assert (form["profile_name"], set(form)) == (hostile, {"grant_type", "cr_token", "profile_name"})
    assert received[1].json["provider_name"] == hostile


def test_a_value_from_outside_has_the_form_of_its_parameter(tmp_path: Path) -> None:
    """In a variable as in the config; a value that is none is neither sent nor shown."""
    params = {**EXAMPLES["dockerhub"].params, "connection_id": {"env": "CONNECTION"}}
    with example_federation(tmp_path, "dockerhub") as world:
        rule = rule_of("dockerhub", params=params)
        answer = world.ask("docker.io/app", rule, env={"CONNECTION": "marked-connection"})
        failed(answer, "the parameter 'connection_id' has another form, expected a UUID")
        assert "marked" not in answer.stderr
        assert [each for each in world.server.received if each.method == "POST"] == []
        assert world.ask("docker.io/app", rule, env={"CONNECTION": CONNECTION}).auth


def test_a_pattern_that_backtracks_does_not_hang(tmp_path: Path) -> None:
    """A tenant's annotation against an administrator's careless pattern: a refusal, in time for a message."""
    params = {"robot": {"annotation": "quay.io/robot", "pattern": "(a+)+b"}}
    with example_federation(tmp_path, "quay") as world:
        answer = world.ask(
            "quay.example.com/app", rule_of("quay", params=params), annotations={"quay.io/robot": "a" * 200}
        )
    failed(answer, "does not match")


@pytest.mark.parametrize(
    ("preset", "name"),
    [(preset, "host") for preset in EXAMPLES if preset not in ("passthrough", "dockerhub")]
    + [("rfc8693", "path"), ("cloudsmith", "org"), ("acr", "tenant"), ("vault", "mount"), ("vault", "secret")]
    + [("vault", "namespace"), ("rfc8693", "client_secret")]
    + [("rfc8693", name) for name in ("audience", "scope", "subject_token_type", "requested_token_type")]
    + [("gcp", "pool"), ("gcp", "scope"), ("acr", "scope"), ("jfrog", "audience")],
)
def test_no_annotation_fills_a_url_a_header_a_purpose_or_a_secret(
    preset: str, name: str, jfrog: Federation
) -> None:
    """Whoever may annotate a service account cannot choose where a token is sent, or what another one is for."""
    example = EXAMPLES[preset]
    hostile = {"annotation": "x/y", "pattern": ".*"}
    rule = rule_of(preset, params={**example.params, name: hostile})
    answer = jfrog.ask(f"{example.registry}/app", rule, annotations={"x/y": JFROG})
    failed(answer, f"rules[0].params.{name}: the value {name!r} is an annotation, which cannot be used in ")
    assert jfrog.proxy.asked == []


FIELDS = [
    "scopes", "requested_subject", "subject_token", "actor_token", "permissions", "project_id",
]  # fmt: skip
HOSTILE = {"annotation": "x/y", "pattern": ".*"}


def own_rule(*fields: str, listed: Sequence[str]) -> dict[str, object]:
    """A rule with a recipe of its own, whose *fields* an annotation fills."""
    rule = rule_of("jfrog", params={"who": HOSTILE})
    del rule["preset"]
    call = {
        "url": f"https://{JFROG}/token",
        "bearer": "${subject}",
        "fields": dict.fromkeys(fields, "${who}"),
        "out": {"token": "/access_token"},
    }
    credentials = {"username": "u", "password": "${token}"}
    return {**rule, "calls": [call], "credentials": credentials, "fromAnnotations": list(listed)}


@pytest.mark.parametrize("name", FIELDS)
def test_an_annotation_fills_no_field_that_the_recipe_does_not_list(name: str, jfrog: Federation) -> None:
    rule = own_rule(name, "other_id", listed=["other_id"])
    answer = jfrog.ask(IMAGE, rule, annotations={"x/y": "admin"})
    failed(answer, f"rules[0].calls[0].fields.{name}: ", f"fromAnnotations does not have {name!r}")
    assert jfrog.proxy.asked == []


@pytest.mark.parametrize(
    "name",
    [
        *FIELDS[:-1], "aud", "X-Audience", "scope", "requestedScope", "resource_id", "RESOURCES", "subjectToken",
        "sub-ject", "Sub_Ject", "ACTOR", "id token", "grantType", "issuer_url", "per.mission",
    ],
)  # fmt: skip
def test_no_recipe_lets_an_annotation_say_what_a_token_is_for(name: str, jfrog: Federation) -> None:
    """In any spelling: a server may be lenient, and an administrator careless."""
    answer = jfrog.ask(IMAGE, own_rule(name, listed=[name]), annotations={"x/y": "admin"})
    failed(answer, f"rules[0].fromAnnotations[0]: no annotation may fill {name!r}: the name contains ")
    assert jfrog.proxy.asked == []


def test_an_annotation_fills_a_field_that_the_recipe_lists(jfrog: Federation) -> None:
    rule = own_rule("project_id", listed=["project_id"])
    assert jfrog.ask(IMAGE, rule, annotations={"x/y": "team"}).auth
    assert jfrog.server.received[0].form["project_id"] == "team"


def test_an_annotation_fills_a_user_name_only_if_the_recipe_lists_it(jfrog: Federation) -> None:
    rule = own_rule(listed=[])
    for part in ({"credentials": {"username": "${who}", "password": "${token}"}}, {}):
        basic = {"basic": {"username": "${who}", "password": "x"}, "bearer": ""}
        calls = rule["calls"] if part else [{**rule["calls"][0], **basic}]  # type: ignore[index] # a list
        changed = {**rule, **part, "calls": calls}
        failed(jfrog.ask(IMAGE, changed, annotations={"x/y": "team"}), "does not have 'username'")
        assert jfrog.ask(
            IMAGE, {**changed, "fromAnnotations": ["username"]}, annotations={"x/y": "team"}
        ).auth


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (own_rule("project_id", listed=["project_id", "project"]), "fromAnnotations[1]: no call has a field"),
        (rule_of("jfrog", fromAnnotations=["provider_type"]), "rules[0]: expected either preset, or calls"),
    ],
    ids=["unknown", "preset"],
)
def test_a_list_of_annotated_fields_that_is_wrong_is_refused(
    rule: dict[str, object], problem: str, jfrog: Federation
) -> None:
    failed(jfrog.ask(IMAGE, rule, annotations={"x/y": "team"}), problem)


@pytest.mark.parametrize(
    ("preset", "name"),
    [("jfrog", "provider_type"), ("gcp", "pool"), ("dockerhub", "org"), ("dockerhub", "connection_id")],
)
def test_a_preset_says_what_an_annotation_may_fill(preset: str, name: str, jfrog: Federation) -> None:
    example = EXAMPLES[preset]
    rule = rule_of(preset, params={**example.params, name: HOSTILE})
    failed(jfrog.ask(f"{example.registry}/app", rule), f"rules[0].params.{name}: the value {name!r} is an")
    assert jfrog.proxy.asked == []


@pytest.mark.parametrize("name", ["audience", "issuer", "file", "variable"])
def test_no_annotation_fills_what_is_checked(name: str, jfrog: Federation) -> None:
    subject = {"audience": AUDIENCE, "issuer": ISSUER, name: {"annotation": "x/y", "pattern": ".*"}}
    failed(jfrog.ask(IMAGE, rule_of("jfrog", subject=subject)), f"rules[0].subject.{name}: found an object")
    failed(
        jfrog.ask(IMAGE, rule_of("jfrog", caFile={"annotation": "x/y"})), "rules[0].caFile: found an object"
    )
    assert jfrog.server.received == []


# Headers


HEADER_VALUES = ["hvs.t\u00e9", "hvs.\u2028x", "hvs.\u0100X-Evil: 1"]


@pytest.mark.parametrize("value", HEADER_VALUES)
def test_a_value_that_a_header_cannot_have_is_not_sent(value: str, tmp_path: Path) -> None:
    """In a header of the recipe's, and in a bearer token: no server sees half of it, or something else."""

    def handle(received: Received) -> Reply:
        assert received.method == "POST"
        return Reply(document={"auth": {"client_token": value}})

    with federation(tmp_path, handle, "vault.example.com") as world:
        answer = world.ask("registry.example.com/app", rule_of("vault"))
        failed(answer, "a value for the header 'X-Vault-Token' has characters that a header cannot have")
        calls = [
            {"url": "https://vault.example.com/a", "bearer": "${subject}", "out": {"first": "/auth/client_token"}},
            {"url": "https://vault.example.com/b", "method": "GET", "encode": "query", "bearer": "${first}",
             "out": {"token": "/t"}},
        ]  # fmt: skip
        rule = {
            "registries": ["registry.example.com"], "subject": {"audience": AUDIENCE, "issuer": ISSUER},
            "calls": calls, "credentials": {"username": "u", "password": "${token}"},
        }  # fmt: skip
        answer = world.ask("registry.example.com/app", rule)
        failed(answer, "a value for the header 'Authorization' has characters that a header cannot have")
        assert value not in answer.stderr
        assert world.server.problems == []
        assert len(world.server.received) == 2


# The file


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_config_that_others_can_write_is_refused(mode: int, jfrog: Federation) -> None:
    """They could choose where tokens are sent."""
    config = jfrog.write(rule_of("jfrog"))
    config.chmod(mode)
    failed(jfrog.ask(IMAGE, args=[f"--config={config}"]), "can be written by other users")
    assert jfrog.server.received == []


@root
def test_a_config_of_another_user_is_refused(jfrog: Federation) -> None:
    """Whatever its mode: its owner could write it at any time, and so choose where tokens are sent."""
    config = jfrog.write(rule_of("jfrog"))
    for mode in (0o644, 0o400):
        config.chmod(mode)
        os.chown(config, SOMEONE, 0)
        failed(jfrog.ask(IMAGE, args=[f"--config={config}"]), "can be written by other users")
        assert jfrog.server.received == []
    os.chown(config, 0, SOMEONE)
    assert jfrog.ask(IMAGE, args=[f"--config={config}"]).auth


def test_a_config_is_judged_by_the_file_that_is_read(jfrog: Federation) -> None:
    """Also behind a link, and a pipe is no config, and does not block."""
    config = jfrog.write(rule_of("jfrog"))
    link = jfrog.folder / "link.json"
    link.symlink_to(config)
    assert jfrog.ask(IMAGE, args=[f"--config={link}"]).auth
    config.chmod(0o666)
    failed(jfrog.ask(IMAGE, args=[f"--config={link}"]), "can be written by other users")
    os.mkfifo(jfrog.folder / "pipe.json", 0o600)
    failed(jfrog.ask(IMAGE, args=[f"--config={jfrog.folder / 'pipe.json'}"]), "pipe.json")
    failed(
        jfrog.ask(IMAGE, args=[f"--config={jfrog.folder / 'nowhere.json'}"]), "cannot be read: no such file"
    )


CONFIGS = {
    "twice": ('{"rules": [], "rules": []}', ":1:", "the key is given more than once"),
    "unknown": ('{\n "rules": [{"registry": "x"}]}', ":2:13: rules[0].registry: unknown field", ""),
    "yaml": ("rules:\n- registries: [x]\n", "c.json:1:1", "the plugin reads JSON, not YAML"),
    "bom": ("\ufeff{}", "c.json", ""),
    "deep": ("[" * 100_000, "c.json", ""),
    "empty": ("", "c.json", ""),
    "a-list": ("[]", "found an array, expected an object", ""),
    "another-kind": (
        '{"apiVersion": "v1", "kind": "Secret"}',
        "apiVersion: expected 'keyferry.dev/v1alpha1'",
        "",
    ),
    "nan": ('{"rules": NaN}', "c.json: not valid JSON", ""),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_config_that_is_none_is_refused_with_its_place(case: str, tmp_path: Path) -> None:
    text, *words = CONFIGS[case]
    path = tmp_path / "c.json"
    path.write_text(text)
    path.chmod(0o600)
    failed(ask_image("federate", IMAGE, args=[f"--config={path}"], token=account_token()), *words)


def test_a_config_beside_flags_is_refused(jfrog: Federation) -> None:
    """So that nobody believes that one of them counts."""
    config = jfrog.write(rule_of("jfrog"))
    answer = jfrog.ask(
        IMAGE, args=[f"--config={config}", "--registry=evil.example.com", "--preset=passthrough"]
    )
    failed(answer, "--config cannot be used with --registry, --preset")


# Leaks, and no identity in place of another


# Longer than any plugin has, so that it does not try again.
NO_RETRY = {"Retry-After": "60"}
SECRETS: Mapping[str, str] = {"CLIENT_SECRET": "marked-client-secret", "OTHER": "marked-variable"}


@pytest.mark.parametrize("verbose", [(), ("--verbose",)], ids=["quiet", "verbose"])
@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("preset", ["rfc8693", "vault", "quay", "acr", "dockerhub"])
def test_no_secret_is_written_but_into_the_response(
    preset: str, status: int, verbose: tuple[str, ...], tmp_path: Path
) -> None:
    """Whatever a server does with what it got: it may put all of it into its answers."""
    example = EXAMPLES[preset]
    sent: list[str] = []

    def handle(received: Received) -> Reply:
        text = received.body.decode() + " ".join(received.headers.values())
        sent.extend([received.body.decode(), received.headers.get("authorization", "-")])
        headers = {"X-Echo": "x"} if preset == "rfc8693" else NO_RETRY
        return Reply(status, {"error": text, "error_description": text, "errors": [text]}, headers=headers)

    token = account_token()
    with federation(tmp_path, handle, example.registry, *example.hosts) as world:
        answer = world.ask(
            f"{example.registry}/app",
            rule_of(preset),
            token=token,
            args=["--timeout=3s", *verbose],
            env=SECRETS,
        )
    failed(answer)
    assert sent
    for secret in (token, token.split(".")[2], *SECRETS.values(), "github-request-token"):
        assert secret not in answer.stderr


@pytest.mark.parametrize("form", ["error", "errors"])
@pytest.mark.parametrize("piece", ["whole", "first half", "with more", "upper case"])
def test_a_secret_is_no_error_code(form: str, piece: str, tmp_path: Path) -> None:
    """A server that returns what it got as its error, or a piece of it, has it not written."""
    secret = "correct-horse-battery"
    said = {
        "whole": secret,
        "first half": secret[:13],
        "with more": f"x-{secret}",
        "upper case": secret.upper(),
    }[piece]
    example = EXAMPLES["rfc8693"]
    reply = Reply(401, {form: [said] if form == "errors" else said})
    with federation(tmp_path, lambda _: reply, example.registry, *example.hosts) as world:
        answer = world.ask(f"{example.registry}/app", rule_of("rfc8693"), env={"CLIENT_SECRET": secret})
    failed(answer, "refused with status 401")
    assert said not in answer.stderr


def test_an_error_code_with_a_word_of_the_config_is_shown(tmp_path: Path) -> None:
    """The user name of the preset is 'token', which is no secret."""
    example = EXAMPLES["rfc8693"]
    reply = Reply(401, {"error": "invalid_token"})
    with federation(tmp_path, lambda _: reply, example.registry, *example.hosts) as world:
        answer = world.ask(f"{example.registry}/app", rule_of("rfc8693"))
    failed(answer, "and the error 'invalid_token'")


def test_without_a_login_no_other_identity_is_asked(tmp_path: Path) -> None:
    """Not a node's, not a user's: whatever else the environment offers."""
    (tmp_path / "config.json").write_text(json.dumps({"auths": {JFROG: {"auth": "bm9kZTpub2Rl"}}}))
    env = {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "GCE_METADATA_HOST": "evil.example.com",
        "DOCKER_CONFIG": str(tmp_path), "ID_TOKEN": account_token(),
    }  # fmt: skip
    with federation(tmp_path, lambda _: Reply(403), JFROG, "evil.example.com") as world:
        failed(world.ask(IMAGE, rule_of("jfrog"), env=env), "refused with status 403")
        failed(
            world.ask(IMAGE, rule_of("jfrog"), token="", env=env), "the kubelet sent no service account token"
        )
        failed(world.ask("docker.io/app", rule_of("dockerhub"), env={"ACTIONS_ID_TOKEN_REQUEST_URL": ""}))
        assert world.proxy.asked == [f"{JFROG}:443"]


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "file:///etc/passwd", "ftp://x/", "", "https://\r\nx/"])
def test_the_endpoint_of_a_job_is_asked_by_https_alone(url: str, jfrog: Federation) -> None:
    answer = jfrog.ask("docker.io/app", rule_of("dockerhub"), env={"ACTIONS_ID_TOKEN_REQUEST_URL": url})
    failed(answer)
    assert "github-request-token" not in answer.stderr
    assert jfrog.proxy.asked == []


def test_the_endpoint_of_a_job_is_not_asked_in_plain_text(tmp_path: Path) -> None:
    """Also not on this machine, where somebody listens."""
    with serving(lambda _: Reply(document={"value": "x"})) as server:
        config = write_config(tmp_path / "c.json", rule_of("dockerhub"))
        env = {"ACTIONS_ID_TOKEN_REQUEST_URL": f"{server.url}/", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "marked"}
        answer = ask_image("federate", "docker.io/app", args=[f"--config={config}"], env=env)
        failed(answer, "is not an https:// URL")
        assert server.received == []


def test_a_preset_for_one_issuer_takes_no_other(jfrog: Federation) -> None:
    """Docker Hub trusts GitHub's issuer alone, so a service account's token is not even read."""
    rule = rule_of("dockerhub", subject={"from": "kubelet", "audience": AUDIENCE, "issuer": ISSUER})
    failed(jfrog.ask("docker.io/app", rule), "the preset takes only tokens from github")


def test_a_token_signed_by_anyone_is_the_servers_to_refuse(tmp_path: Path) -> None:
    """The plugin verifies no signature; the server that checks it does."""
    forged = sign(account_claims(), rsa.generate_private_key(65537, 2048))
    with pytest.raises(jwt.InvalidSignatureError):
        check_subject(forged)
    with federation(tmp_path, lambda _: Reply(401, {"error": "invalid_grant"}), JFROG) as world:
        failed(world.ask(IMAGE, rule_of("jfrog"), token=forged), "'invalid_grant'")
