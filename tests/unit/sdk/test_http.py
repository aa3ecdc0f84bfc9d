"""The values around a request, and the instant that bounds it."""

from __future__ import annotations

import pickle
import time

import pytest

from keyferry.errors import HttpError, ProvideError
from keyferry.sdk import Deadline
from keyferry.sdk.http import ONCE, HttpOptions, Reply, Retry


def test_waits_double_up_to_a_limit_and_jitter_by_half() -> None:
    """Each between half of the full wait and all of it, and not always the same."""
    retry = Retry(attempts=9, first_seconds=1, most_seconds=5)
    for number, full in ((1, 1), (2, 2), (3, 4), (4, 5), (9, 5), (1000, 5)):
        waits = [retry.delay(number) for _ in range(200)]
        assert all(full / 2 <= wait < full for wait in waits)
        assert len(set(waits)) > 100
        assert max(waits) - min(waits) > full / 4


def test_one_attempt_is_one() -> None:
    """For what must not be sent twice."""
    assert ONCE.attempts == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_is_transient(status: int) -> None:
    """By default."""
    assert Retry().is_transient(Reply(url="u", status=status, headers=(), body=b""))
    assert not Retry().is_transient(Reply(url="u", status=status + 100, headers=(), body=b""))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30),
        (" 7 ", 7),
        ("0", 0),
        ("-1", 0),
        ("1.5", 0),
        ("soon", 0),
        ("Wed, 21 Oct 2020 07:28:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 999_999_999),
        ("9" * 5000, 999_999_999),
    ],
)
def test_the_pause_that_a_reply_asks_for(value: str, seconds: int) -> None:
    """In whole seconds, within bounds."""
    assert (
        Reply(url="u", status=429, headers=(("retry-after", value),), body=b"").retry_after_seconds == seconds
    )
    assert Reply(url="u", status=429, headers=(), body=b"").retry_after_seconds == 0


@pytest.mark.parametrize(
    ("until", "seconds"),
    [("07:28:30", 30), ("07:28:00", 0), ("07:27:59", 0), ("08:28:00", 3600)],
)
def test_a_date_to_wait_for_counts_from_the_servers_own(until: str, seconds: int) -> None:
    """Its clock may be years from ours."""
    headers = (("retry-after", f"Wed, 21 Oct 2099 {until} GMT"), ("date", "Wed, 21 Oct 2099 07:28:00 GMT"))
    reply = Reply(url="u", status=429, headers=headers, body=b"")
    assert reply.retry_after_seconds == seconds
    assert reply.sent_at == 4096250880


@pytest.mark.parametrize("date", [(), (("date", "today"),)])
def test_a_date_to_wait_for_counts_from_our_clock_if_the_server_tells_none(
    date: tuple[tuple[str, str], ...],
) -> None:
    """The pause is rounded up, so that it is never too short."""
    from email.utils import formatdate

    start = time.time()
    reply = Reply(
        url="u", status=503, headers=(("retry-after", formatdate(start + 600, usegmt=True)), *date), body=b""
    )
    found = reply.retry_after_seconds
    passed = time.time() - start
    assert 599 - passed <= found <= 600
    assert reply.sent_at is None


@pytest.mark.parametrize(("status", "is_success"), [(199, False), (200, True), (299, True), (300, False)])
def test_success_is_two_hundred_and_something(status: int, is_success: bool) -> None:
    """And nothing else."""
    assert Reply(url="u", status=status, headers=(), body=b"").is_success is is_success


def test_a_deadline_counts_down_and_is_never_extended() -> None:
    """A part of it ends with it."""
    deadline = Deadline(60)
    assert 0 < deadline.remaining() <= 60
    assert deadline.within(1000).seconds_left <= 60
    assert deadline.within(0.01).seconds_left <= 0.01
    over = Deadline(0)
    time.sleep(0.001)
    assert over.seconds_left < 0
    assert over.within(5).seconds_left < 0
    with pytest.raises(TimeoutError):
        over.remaining()


@pytest.mark.parametrize(
    "error", [HttpError("http://h/", "broke", "mend it", is_timeout=True), ProvideError("no", "yes")]
)
def test_errors_survive_a_pickle(error: ProvideError) -> None:
    """With all that they say."""
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy), copy.args) == (
        type(error),
        str(error),
        vars(error),
        error.args,
    )


def test_an_error_says_what_and_then_what_to_do() -> None:
    """In one sentence."""
    assert str(ProvideError("no login", "ask for one")) == "no login; ask for one"
    assert str(ProvideError("no login")) == "no login"
    assert str(HttpError("http://h/", "broke", "mend it")) == "http://h/: broke; mend it"


def test_a_route_trusts_the_system_by_default() -> None:
    """And goes through the environment's proxy."""
    assert HttpOptions() == HttpOptions(
        use_proxy=True,
        ca_file="",
        ca_data="",
        is_insecure=False,
        address="",
        connect_seconds=5.0,
        attempt_seconds=15.0,
        most_bytes=10 * 1024 * 1024,
    )
