"""keyferry-federate when a server fails: every preset, at each of its calls, and with tokens that are not valid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from keyferry.api.federation.presets import PRESETS
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
    rule_of,
)
from support.reference import Answer

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
