"""Replies that are kept are those that would be written, take a bounded amount of memory, and go with their second."""

from __future__ import annotations

import json

from keyferry._core.values import replace
from keyferry.agent.lookups import AgentQuestion, lookup_reply
from keyferry.agent.reply_memo import LONGEST_KEPT_BYTES, ReplyMemo
from keyferry.images.answer import Answer
from keyferry.images.lookup import Providers
from keyferry.images.reference import parse_image
from support.function_plugins import answering, provider, providers

SECOND = 1_000_000_000
KIB = 1024


def recalled(asked: Providers, image: str) -> tuple[AgentQuestion, Answer]:
    """Return a question and its answer from memory."""
    asked.lookup(image)
    answer = asked.recall(image)
    assert answer is not None
    return AgentQuestion(image=parse_image(image)), answer


def without_end(body: bytes) -> dict[str, object]:
    """Return a document without the end of its answers, by the wall clock, which goes on while a test runs."""
    document = json.loads(body)
    assert isinstance(document, dict)
    document.pop("expiresAt", None)
    return document


def with_passwords(length: int) -> Providers:
    """Return a provider with another answer for each image."""
    auth = {"one.example": ("u", "p" * length)}
    return providers(provider("p", ["one.example"], answering(auth, "Image")))


def test_a_kept_reply_is_the_one_that_would_be_written() -> None:
    """For each image its own, also where the answers of two registries differ in nothing but the key."""
    auth = {"one.example": ("u", "p1"), "two.example": ("u", "p2"), "two.example/deep": ("u", "p3")}
    asked = providers(provider("p", ["one.example", "two.example"], answering(auth, "Global")))
    memo = ReplyMemo()
    images = ("one.example/a", "one.example/b", "two.example/a", "two.example/deep/a", "else.example/a")
    for image in images * 3:
        question, answer = recalled(asked, image)
        kept, written = memo.find(question, answer, SECOND), lookup_reply(question, answer, SECOND)
        assert replace(kept, body=b"") == replace(written, body=b"")
        assert without_end(kept.body) == without_end(written.body)
        assert json.loads(kept.body)["image"] == image
    assert len(memo) == 4


def test_a_reply_is_written_again_after_a_second() -> None:
    question, answer = recalled(with_passwords(1), "one.example/app")
    memo = ReplyMemo()
    first, size = memo.find(question, answer, SECOND), memo.bytes
    later = memo.find(question, answer, 100 * SECOND)
    assert first.body != later.body  # the same instant of one clock is another one of the other
    assert (len(memo), memo.bytes) == (1, size)


def test_kept_replies_are_bounded_by_the_memory_of_their_credentials() -> None:
    """Of the passwords, which are in the reply and in the answer that is kept with it."""
    asked, memo = with_passwords(20 * KIB), ReplyMemo(256 * KIB)
    for number in range(50):
        memo.find(*recalled(asked, f"one.example/{number}"), SECOND)
        assert len(memo) * 40 * KIB <= memo.bytes <= 256 * KIB
    assert len(memo) > 0


def test_a_large_answer_is_not_kept() -> None:
    """Neither for its reply nor for keys of other registries, which are in no reply of this image."""
    memo = ReplyMemo()
    memo.find(*recalled(with_passwords(LONGEST_KEPT_BYTES), "one.example/app"), SECOND)
    others = {f"r{number}.example": ("u", "p" * 2 * KIB) for number in range(40)}
    auth = {"one.example": ("u", "p"), **others}
    asked = providers(provider("p", ["one.example"], answering(auth)))
    memo.find(*recalled(asked, "one.example/app"), SECOND)
    assert (len(memo), memo.bytes) == (0, 0)


def test_replies_go_with_their_second_and_at_an_eviction() -> None:
    """What has expired, or was refused by a registry, does not stay in memory because it was asked for once."""
    asked, memo = with_passwords(KIB), ReplyMemo()
    for number in range(10):
        memo.find(*recalled(asked, f"one.example/{number}"), SECOND + number)
    memo.drop_old(2 * SECOND + 4)
    assert len(memo) == 5
    # The next one to be written takes the old ones along, without being told.
    memo.find(*recalled(asked, "one.example/new"), 10 * SECOND)
    assert len(memo) == 1
    memo.clear()
    assert (len(memo), memo.bytes) == (0, 0)
