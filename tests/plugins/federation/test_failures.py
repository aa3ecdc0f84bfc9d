"""keyferry-federate where servers fail, are busy or slow, and beside other programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import jwt
import pytest

from keyferry.api.federation.presets import PRESETS
from support import azure_cloud, google_world
from support.azure_acr import ANNOTATIONS
from support.fake_cloud import Received, Reply
from support.federation import (
    EXAMPLES,
    GITHUB_HOST,
    HOUR,
    Federation,
    account_token,
    federation,
    github_token,
    issued,
    issuer_key,
    rule_of,
    write_config,
)
from support.reference import Answer, ask_image

AWAY = "marked.example.com"
LATER = {"Retry-After": "3600"}
CALLING = [name for name, example in EXAMPLES.items() if example.calls]
CALLS = [(name, at) for name in CALLING for at in range(EXAMPLES[name].calls)]
FAILURES: Mapping[str, Reply] = {
    "refused": Reply(401, {"error": "invalid_grant", "error_description": "marked"}),
    "throttled": Reply(429, {"error": "slow_down"}, headers=LATER),
    "down": Reply(500, body=b"marked", headers=LATER),
    "garbage": Reply(body=b"\x00\xff<html>marked"),
    "redirect": Reply(307, headers={"Location": f"https://{AWAY}/"}),
}


@dataclass
class FailingServers:
    """The servers of an example, one call of which is answered otherwise; *url* is that of the last such call."""

    handler: Callable[[Received], Reply]
    at: int = 0
    replies: list[Reply] = field(default_factory=list)
    count: int = 0
    url: str = ""

    def fail(self, at: int, *replies: Reply) -> None:
        """Answer the call *at*, counted from 0, with *replies*, one for each attempt, and then as usual."""
        self.at, self.replies, self.count = at, list(replies), 0

    def answer(self, received: Received) -> Reply:
        """Answer one request."""
        if self.count == self.at and self.replies:
            self.url = f"https://{received.headers['host']}{received.path}"
            return self.replies.pop(0)
        self.count += 1
        return self.handler(received)


@pytest.fixture(name="servers", params=CALLING)
def _servers(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, FailingServers, Federation]]:
    """A preset with calls, its servers, and the plugin's surroundings."""
    with failing_servers(request.param, tmp_path) as (servers, world):
        yield request.param, servers, world


@contextmanager
def failing_servers(name: str, folder: Path) -> Iterator[tuple[FailingServers, Federation]]:
    """Yield the servers of an example, and the plugin's surroundings."""
    example = EXAMPLES[name]
    servers = FailingServers(example.handler)
    with federation(folder, servers.answer, example.registry, *example.hosts, AWAY) as world:
        yield servers, world


def at_every_call(check: Callable[[str, int, FailingServers, Federation], None], folder: Path) -> None:
    """Check each call of each preset, some at once, since most of the time is waiting; each has its own servers."""

    def check_one(name: str, at: int) -> None:
        own = folder / f"{name}-{at}"
        own.mkdir()
        with failing_servers(name, own) as (servers, world):
            check(name, at, servers, world)
            assert world.server.problems == [], (name, at)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(check_one, *call) for call in CALLS]:
            done.result()


def ask(world: Federation, name: str, token: str = "", **flags: str) -> Answer:
    """Run the plugin for an image of the example's registry."""
    args = [f"--{flag}={value}" for flag, value in flags.items()]
    image = f"{EXAMPLES[name].registry}/team/app"
    return world.ask(image, rule_of(name), token=token or account_token(), args=args)


def assert_failed(answer: Answer, *words: str) -> None:
    """A message that names what failed, nothing of a body, and no response."""
    assert (answer.status, answer.stdout) == (1, ""), answer.stdout
    assert all(word in answer.stderr for word in words), answer.stderr
    assert not any(word in answer.stderr for word in ("marked", "Traceback", "eyJ")), answer.stderr


def test_every_call_of_every_preset_may_fail(servers: tuple[str, FailingServers, Federation]) -> None:
    """Errors, throttling, garbage and redirects are named by their URL, and no further call is made."""
    name, failing, world = servers
    for at in range(EXAMPLES[name].calls):
        for case, reply in FAILURES.items():
            failing.fail(at, reply)
            asked = len(world.proxy.asked)
            answer = ask(world, name)
            assert_failed(answer, f" {failing.url}: ")
            assert len(world.proxy.asked) - asked <= at + 1, (case, at)
            assert failing.replies == []
    assert f"{AWAY}:443" not in world.proxy.asked
    assert world.server.problems == []


def test_every_call_of_every_preset_may_be_slow(tmp_path: Path) -> None:
    """A deadline that has passed is named by the URL, and no further call is made."""

    def check(name: str, at: int, failing: FailingServers, world: Federation) -> None:
        failing.fail(at, Reply(after=1.5))
        answer = ask(world, name, timeout="300ms")
        # Too slow a machine sends nothing at all: then the URL is not known here.
        assert_failed(answer, f" {failing.url}: " if failing.url else "https://")
        assert len(world.proxy.asked) <= at + 1, (name, at)

    at_every_call(check, tmp_path)


def test_every_call_of_every_preset_waits_for_a_busy_server(tmp_path: Path) -> None:
    """A server that throttles with Retry-After, and then is out of order for a moment, is asked again."""

    def check(name: str, at: int, failing: FailingServers, world: Federation) -> None:
        failing.fail(at, Reply(429, headers={"Retry-After": "0"}), Reply(503))
        answer = ask(world, name)
        assert [user for user, _ in answer.auth.values()] == [EXAMPLES[name].username], (name, at)
        assert failing.replies == [], (name, at)

    at_every_call(check, tmp_path)


SUBJECTS: Mapping[str, tuple[Mapping[str, int], str]] = {
    "expired": ({"exp": int(time.time()) - 1}, "the subject token has expired"),
    "not-yet-valid": ({"nbf": int(time.time()) + HOUR}, "the subject token is not valid yet"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_preset_sends_a_subject_that_is_not_valid_now(name: str, tmp_path: Path) -> None:
    """Whichever source it is from."""
    example = EXAMPLES[name]
    given: list[str] = []

    def handle(received: Received) -> Reply:
        assert received.headers["host"] == GITHUB_HOST
        return Reply(document={"value": given[-1]})

    with federation(tmp_path, handle, example.registry, *example.hosts) as world:
        for changes, words in SUBJECTS.values():
            given.append(github_token(**changes))
            assert_failed(ask(world, name, account_token(**changes)), words)
        assert world.server.problems == []


ISSUED: Mapping[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: issued(-5), "the token of the response has expired already"),
    "not-yet-valid": (
        lambda: issued(nbf=int(time.time()) + HOUR),
        "the token of the response is not valid yet",
    ),
}


def test_no_preset_gives_a_token_that_is_not_valid_now(
    servers: tuple[str, FailingServers, Federation],
) -> None:
    """The token of the last response stands where the preset looks for it."""
    name, failing, world = servers
    usual = failing.handler
    for make, words in ISSUED.values():

        def handle(received: Received, make: Callable[[], str] = make) -> Reply:
            reply = usual(received)
            if is_last(name, failing.count):
                put(reply.document, pointer_of_token(name), make())
            return reply

        failing.handler = handle
        failing.fail(-1)
        assert_failed(ask(world, name), words)


def is_last(name: str, count: int) -> bool:
    """Return whether the request that is the *count*-th is the last one of a preset."""
    return count == EXAMPLES[name].calls


def pointer_of_token(name: str) -> list[str]:
    """Return the steps to the password in a preset's last response."""
    calls = PRESETS[name]["calls"]
    assert isinstance(calls, list)
    pointer = calls[-1]["out"]["token"]
    return str(pointer if isinstance(pointer, str) else pointer[0]).split("/")[1:]


def put(document: object, steps: list[str], value: str) -> None:
    """Replace the value at the end of *steps*."""
    for step in steps[:-1]:
        assert isinstance(document, dict)
        document = document[step]
    assert isinstance(document, dict)
    assert steps[-1] in document
    document[steps[-1]] = value


AUDIENCE, ISSUER = "api://AzureADTokenExchange", "https://kubernetes.example.com"
AGENT = "user-agent"


def federate(folder: Path, image: str, rule: dict[str, object], env: dict[str, str], token: str) -> Answer:
    """Run keyferry-federate with one rule."""
    config = write_config(folder / "federation.json", rule)
    return ask_image("federate", image, args=[f"--config={config}"], env=env, token=token)


def essence(received: Received) -> tuple[str, str, str, object]:
    """Return what a server decides by: method, target, encoding and fields."""
    kind = received.headers["content-type"]
    fields = received.form if kind.startswith("application/x-www-form") else received.json
    return received.method, received.target, kind, fields


def response_of(answer: Answer, host: str) -> tuple[object, ...]:
    """Return the login of a registry, and for what and how long the kubelet keeps it."""
    assert answer.status == 0, answer.stderr
    document = answer.document
    return answer.auth[host], document["cacheKeyType"], document["cacheDuration"]


def test_acr_and_the_preset_acr(tmp_path: Path) -> None:
    """Entra and the registry get the same two exchanges, and the kubelet the same login for the same time."""
    token = account_token(aud=[AUDIENCE])
    registry_token = azure_cloud.registry_token()
    host = azure_cloud.REGISTRY
    image = f"{host}/team/app"

    def registry(received: Received) -> Reply:
        # The plugin for Azure asks for a challenge first, as the cloud's own does.
        if received.method == "GET":
            return azure_cloud.challenge()
        agent = {AGENT: "kubernetes-credentialprovider-acr"}
        seen = replace(received, headers={**received.headers, **agent})
        return azure_cloud.registry_answers(registry_token)(seen)

    with azure_cloud.serving_azure(tmp_path) as azure:
        azure.on(azure_cloud.ENTRA, azure_cloud.federated_answers(token))
        azure.on(host, registry)
        args = [azure.config(tenantId=azure_cloud.TENANT)]
        own = ask_image("acr", image, args=args, env=azure.environ, token=token, annotations=ANNOTATIONS)
        rule: dict[str, object] = {
            "registries": [host],
            "subject": {"audience": AUDIENCE, "issuer": ISSUER},
            "preset": "acr",
            "params": {"tenant": azure_cloud.TENANT, "client_id": azure_cloud.CLIENT},
        }
        preset = federate(tmp_path, image, rule, azure.environ, token)
        assert response_of(own, host) == response_of(preset, host)
        for name in (azure_cloud.ENTRA, host):
            first, second = [essence(each) for each in azure.sent(name) if each.method == "POST"]
            assert first == second


def test_gcr_and_the_preset_gcp(tmp_path: Path) -> None:
    """Google's token service gets the same exchange."""
    token = account_token(aud=["demo.svc.id.goog"])
    image = "us-docker.pkg.dev/demo/repo/app"

    def exchange(received: Received) -> Reply:
        subject = str(received.json["subject_token"])
        jwt.decode(subject, issuer_key().public_key(), ["RS256"], audience="demo.svc.id.goog", issuer=ISSUER)
        return google_world.token_reply(google_world.FEDERATED_TOKEN)

    with google_world.google_world(tmp_path) as google:
        google.on(f"POST {google_world.STS}/v1/token", exchange)
        own = ask_image(
            "gcr", image, args=["--identity-provider=https://idp.example.com/demo", "--project-id=demo"],
            env=google.node_env(), token=token, annotations={"iam.gke.io/enable-wi-image-pull": "true"},
        )  # fmt: skip
        rule: dict[str, object] = {
            "registries": ["us-docker.pkg.dev"],
            "subject": {"audience": "demo.svc.id.goog", "issuer": ISSUER},
            "preset": "gcp",
            "params": {"pool": "identitynamespace:demo.svc.id.goog:https://idp.example.com/demo"},
        }
        preset = federate(tmp_path, image, rule, google.env(), token)
        first, second = [essence(each) for each in google.api.received]
    assert first == second
    login = ("_token", google_world.FEDERATED_TOKEN)
    assert own.auth["us-docker.pkg.dev"] == preset.auth["us-docker.pkg.dev"] == login
