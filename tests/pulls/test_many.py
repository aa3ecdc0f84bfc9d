"""Many questions for registries: a few at a time, with the pauses that they ask for, and within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from threading import Event, Lock
from time import time

import pytest

from keyferry import parse_image
from keyferry._net.messages import Head
from keyferry.errors import Kind
from keyferry.pulls.registry.many import (
    MAX_PER_REGISTRY,
    ManyOptions,
    RegistryAnswer,
    RegistryQuestion,
    ask_many,
)
from keyferry.pulls.registry.pace import MAX_PAUSED_SECONDS, Budget, asked_pause
from support.fake_cloud import FakeServer, Received, Reply, serving
from support.fake_registry import credential

MANIFEST = {"Content-Type": "application/vnd.oci.image.manifest.v1+json", "Docker-Content-Digest": "sha256:0"}

A_MINUTE = 60


@dataclass
class Clock:
    """A clock that a pause steps; ``pauses`` are the pauses."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def pause(self, seconds: float) -> None:
        """Let the time pass."""
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def replies() -> list[Reply]:
    """What the registry answers first; then it has every image."""
    return []


@pytest.fixture
def server(replies: list[Reply]) -> Iterator[FakeServer]:
    lock = Lock()

    def answer(request: Received) -> Reply:
        if request.path == "/v2/":
            return Reply(document={})
        with lock:
            return replies.pop(0) if replies else Reply(headers=MANIFEST)

    with serving(answer) as running:
        yield running


def ask(
    server: FakeServer, count: int, clock: Clock, budget: Budget | None = None, host: str = ""
) -> list[RegistryAnswer]:
    """Return the answers to questions for images of one registry, in the order of the questions."""
    name = host or f"127.0.0.1:{server.port}"
    questions = [RegistryQuestion(image=parse_image(f"{name}/team/app:v{at}")) for at in range(count)]
    options = ManyOptions(budget=budget or Budget(), clock=clock, pause=clock.pause, timeout_seconds=20.0)
    found = dict(ask_many(questions, options))
    assert sorted(found) == list(range(count))
    return [found[at] for at in range(count)]


def requests_of(server: FakeServer) -> list[str]:
    """Return the requests for manifests."""
    return [f"{each.method} {each.path}" for each in server.received if "manifests" in each.path]


def test_every_question_is_one_request(server: FakeServer, clock: Clock) -> None:
    answers = ask(server, 40, clock)
    assert all(each.attempts[0].worked for each in answers)
    assert sorted(requests_of(server)) == sorted(f"HEAD /v2/team/app/manifests/v{at}" for at in range(40))
    assert clock.pauses == []


def test_a_registry_is_asked_few_questions_at_a_time(clock: Clock) -> None:
    """So that it takes them for a user's, and not for an attack."""
    lock, inside, seen = Lock(), 0, 0
    several, one_too_many = Event(), Event()

    def answer(request: Received) -> Reply:
        nonlocal inside, seen
        with lock:
            inside += 1
            seen = max(seen, inside)
        if seen > MAX_PER_REGISTRY:
            one_too_many.set()
        elif inside == MAX_PER_REGISTRY:
            one_too_many.wait(0.3 if not several.is_set() else 0)
            several.set()
        elif "manifests" in request.path:
            several.wait(20)
        with lock:
            inside -= 1
        return Reply(headers=MANIFEST)

    with serving(answer) as server:
        ask(server, 40, clock)
    assert seen == MAX_PER_REGISTRY


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "30"}, 30),
        ({"Retry-After": "in a minute"}, A_MINUTE),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "45"}, 45),
        ({"RateLimit-Remaining": "0;w=60", "RateLimit-Reset": "7"}, 7),
        ({}, 2),
        ({"Retry-After": "0"}, 2),
        ({"Retry-After": "soon"}, 2),
        ({"Retry-After": "-5"}, 2),
    ],
    ids=str,
)
def test_the_pause_of_a_429_is_kept_and_the_question_asked_again(
    server: FakeServer, replies: list[Reply], clock: Clock, headers: dict[str, str], seconds: float
) -> None:
    """For as long as the registry says; a server without a word about it gets a short one."""
    if "in a minute" in headers.values():
        headers = {"Retry-After": formatdate(time() + A_MINUTE, usegmt=True)}
    replies.append(Reply(429, {"errors": []}, headers=headers))
    (answer,) = ask(server, 1, clock)
    assert answer.attempts[-1].worked
    assert len(requests_of(server)) == 2
    # On a busy machine some of the minute is over when the server answers.
    assert sum(clock.pauses) == pytest.approx(seconds, abs=30 if seconds == A_MINUTE else 1.1)


def test_a_server_that_is_to_be_asked_later_is(
    server: FakeServer, replies: list[Reply], clock: Clock
) -> None:
    """If it says when; else its error is the answer."""
    replies.append(Reply(503, headers={"Retry-After": "30"}))
    (answer,) = ask(server, 1, clock)
    assert answer.attempts[-1].worked
    assert len(requests_of(server)) == 2
    assert sum(clock.pauses) == pytest.approx(30, abs=1)
    replies += [Reply(503)] * 2
    (answer,) = ask(server, 1, clock)
    assert answer.attempts[-1].kind is Kind.ERROR
    assert len(clock.pauses) == 1


def test_a_question_that_is_answered_is_not_asked_again_after_a_pause(
    server: FakeServer, replies: list[Reply], clock: Clock
) -> None:
    """Although its answer says that no request is left."""
    spent = {"RateLimit-Remaining": "0", "RateLimit-Reset": "20"}
    replies += [Reply(404, {"errors": []}, headers=spent)] * 2
    (answer,) = ask(server, 1, clock)
    assert answer.attempts[-1].kind is Kind.NOT_FOUND
    assert (len(requests_of(server)), clock.pauses) == (2, [])


def test_a_throttled_request_is_not_repeated_with_get(
    server: FakeServer, replies: list[Reply], clock: Clock
) -> None:
    """Which counts as a pull at some registries, where HEAD does not."""
    replies += [Reply(429)] * 3
    (answer,) = ask(server, 1, clock)
    assert answer.attempts[-1].kind is Kind.THROTTLED
    assert {each.partition(" ")[0] for each in requests_of(server)} == {"HEAD"}
    assert len(requests_of(server)) == 3


def test_no_request_is_left_means_a_pause_before_the_next(
    server: FakeServer, replies: list[Reply], clock: Clock
) -> None:
    """The registry says it with a good answer already."""
    spent = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "20"}
    replies += [Reply(headers={**MANIFEST, **spent})] * MAX_PER_REGISTRY
    answers = ask(server, 2 * MAX_PER_REGISTRY, clock)
    assert all(each.attempts[-1].worked for each in answers)
    # One for each round of such answers; how many are sent at once depends on how quick the first answer is.
    assert clock.pauses
    assert clock.pauses == pytest.approx([20] * len(clock.pauses), abs=1)


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (200, {}, None),
        (404, {"retry-after": "30"}, None),
        (503, {"retry-after": "30"}, 30.0),
        (503, {}, None),
        (200, {"ratelimit-remaining": "0;w=21600", "ratelimit-limit": "100;w=21600"}, None),
        (200, {"x-ratelimit-remaining": "3", "x-ratelimit-reset": "30"}, None),
        (200, {"ratelimit-remaining": "0", "ratelimit-reset": "9" * 4000}, float(999_999_999_999) - 1e9),
        (200, {"ratelimit-remaining": "٣", "ratelimit-reset": "30"}, None),
    ],
    ids=str,
)
def test_what_asks_for_a_pause(status: int, headers: dict[str, str], seconds: float | None) -> None:
    """Docker Hub's window of hours does not: requests with HEAD are not counted there."""
    found = asked_pause(Head(status=status, reason="", headers=tuple(headers.items())))
    if seconds is None:
        assert found is None
    else:
        assert found is not None
        assert found >= seconds - 1e9 if seconds > 1e9 else found == seconds


@pytest.mark.parametrize("after", ["86400", "300"])
def test_a_registry_that_asks_for_too_long_pauses_is_given_up(
    server: FakeServer, replies: list[Reply], clock: Clock, after: str
) -> None:
    """In one pause or in many; its questions are answered as not asked."""
    replies += [Reply(429, headers={"Retry-After": after})] * 100
    answers = ask(server, 10, clock)
    left = [each for each in answers if each.not_asked is not None]
    assert left
    assert "was not asked any more: it asks for pauses of" in str(left[0].not_asked)
    assert sum(clock.pauses) <= MAX_PAUSED_SECONDS


def test_other_registries_go_on_during_a_pause(
    server: FakeServer, replies: list[Reply], clock: Clock
) -> None:
    """One that asks for a pause holds up no other."""
    order: list[str] = []

    def answer(request: Received) -> Reply:
        if "manifests" in request.path:
            order.append("other")
        return Reply(headers=MANIFEST)

    def on_pause(registry: str, seconds: float) -> None:
        order.append(f"{registry} {seconds:.0f}")

    replies.append(Reply(429, headers={"Retry-After": "30"}))
    slow = f"127.0.0.1:{server.port}"
    with serving(answer) as other:
        names = [f"{slow}/a:v1", *(f"127.0.0.1:{other.port}/b:v{at}" for at in range(20))]
        questions = [RegistryQuestion(image=parse_image(each)) for each in names]
        options = ManyOptions(clock=clock, pause=clock.pause, on_pause=on_pause, timeout_seconds=20.0)
        found = dict(ask_many(questions, options))
    assert len(found) == 21
    assert order == ["other"] * 20 + [f"{slow} 30"]


def test_the_budget_counts_every_request(server: FakeServer, clock: Clock) -> None:
    """Also those that find out how a registry is reached; none is sent beyond it."""
    budget = Budget(5)
    answers = ask(server, 20, clock, budget)
    assert len(server.received) == budget.spent == 5
    asked = [each for each in answers if each.not_asked is None]
    assert 0 < len(asked) < 5
    assert all(each.attempts[0].worked for each in asked)
    assert {str(each.not_asked) for each in answers if each.not_asked} == {
        f"registry '127.0.0.1:{server.port}': was not asked any more: the budget of requests (5) is used up"
    }


def test_the_budget_ends_in_the_middle_of_a_question(clock: Clock) -> None:
    """Of which the first request was answered with a challenge: the next one is not sent."""
    challenge = Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'})
    budget = Budget(6)

    def answer(request: Received) -> Reply:
        if request.path == "/v2/":
            return Reply(document={})
        return Reply(headers=MANIFEST) if "authorization" in request.headers else challenge

    with serving(answer) as server:
        names = [f"127.0.0.1:{server.port}/app:v{at}" for at in range(9)]
        questions = [RegistryQuestion(image=parse_image(each), credentials=(credential(),)) for each in names]
        options = ManyOptions(budget=budget, clock=clock, pause=clock.pause)
        found = dict(ask_many(questions, options))
        assert len(server.received) == 6
    assert [found[at].not_asked is None for at in range(9)] == [True] * 2 + [False] * 7


def test_a_registry_that_is_not_there_is_not_asked_for_each_image(clock: Clock) -> None:
    """Each request would take until its time limit."""
    answers = ask(None, 50, clock, host="127.0.0.1:9")  # type: ignore[arg-type] # there is no server
    silent = [each for each in answers if each.not_asked is None]
    assert len(silent) <= MAX_PER_REGISTRY + 2
    assert {each.attempts[0].kind for each in silent} == {Kind.UNREACHABLE}
    left = [str(each.not_asked) for each in answers if each.not_asked is not None]
    assert "connection refused" in left[0]


def test_no_later_credential_is_tried_after_one_that_works() -> None:
    """As in the kubelet; a refused one is followed by the next."""
    good = credential("alice")
    challenge = Reply(401, headers={"WWW-Authenticate": 'Basic realm="r"'})

    def answer(request: Received) -> Reply:
        if request.path == "/v2/":
            return Reply(document={})
        proof = request.headers.get("authorization", "")
        return Reply(headers=MANIFEST) if "YWxpY2U6" in proof else challenge

    with serving(answer) as server:
        image = parse_image(f"127.0.0.1:{server.port}/a:v1")
        tried = (credential("bob"), good, credential("carol"))
        ((_, found),) = ask_many([RegistryQuestion(image=image, credentials=tried)], ManyOptions())
    assert [(each.credential, each.worked) for each in found.attempts] == [(tried[0], False), (good, True)]
    assert "kf-marked" not in repr(found)


def test_who_stops_listening_ends_the_requests(server: FakeServer, clock: Clock) -> None:
    """No thread goes on, and no request is sent any more."""
    name = f"127.0.0.1:{server.port}"
    questions = [RegistryQuestion(image=parse_image(f"{name}/team/app:v{at}")) for at in range(200)]
    found = ask_many(questions, ManyOptions(clock=clock, pause=clock.pause))
    next(found)
    found.close()  # type: ignore[attr-defined] # a generator
    assert len(server.received) < len(questions)
