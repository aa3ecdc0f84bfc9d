"""The replies of answers from memory, as they are sent; writing JSON takes longer than all the rest."""

from __future__ import annotations

from collections.abc import Iterable

from keyferry._core.values import Value
from keyferry.agent.decision import DecisionResult, result_of_answer
from keyferry.agent.lookups import AgentQuestion, answer_fields, image_reply
from keyferry.agent.message import AgentReply
from keyferry.images.answer import Answer
from keyferry.images.provider.cache import auth_bytes

__all__ = ["ReplyMemo"]

# The wall clock may be set, so a reply counts for so long.
_FRESH_NS = 1_000_000_000
MOST_BYTES = 4 * 1024 * 1024
# A larger answer is written anew each time: few are, and each would push out many others.
LONGEST_KEPT_BYTES = 64 * 1024
# The memory of a reply beside its text and its credentials.
_REPLY_BYTES = 1024


class _Kept(Value):
    """A reply without its image; its answer is kept with it, so that the objects in it keep their identities."""

    answer: Answer
    until_ns: int
    size: int
    rest: bytes
    result: DecisionResult


class ReplyMemo:
    """A table of replies for one second each, bounded in bytes.

    All images of a registry share the objects of one cached answer, so these are the key, and not the image. A reply
    holds its credentials in memory, so what they take counts, and those that have had their second are dropped.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        # In the order in which they were written, which is that of their ends.
        self._kept: dict[tuple[int, ...], _Kept] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, question: AgentQuestion, answer: Answer, now_ns: int) -> AgentReply:
        """Return the reply of an answer; it is written again after a second."""
        key = (*map(id, answer.provisions), 0, *map(id, answer.credentials))
        kept = self._kept.get(key)
        if kept is None or now_ns >= kept.until_ns:
            kept = self._write(key, answer, now_ns)
        return image_reply(question, answer.image, kept.rest, kept.result)

    def drop_old(self, now_ns: int) -> None:
        """Drop the replies that have had their second, with their credentials."""
        self._drop(self._ended(now_ns))

    def clear(self) -> None:
        """Drop all replies, some of which may have a credential that a registry refused."""
        self._drop(list(self._kept))

    def _write(self, key: tuple[int, ...], answer: Answer, now_ns: int) -> _Kept:
        self.drop_old(now_ns)
        rest = answer_fields(answer, now_ns)
        held = sum(auth_bytes(provision.auth) for provision in answer.provisions)
        size = _REPLY_BYTES + len(rest) + held
        kept = _Kept(
            answer=answer, until_ns=now_ns + _FRESH_NS, size=size, rest=rest, result=result_of_answer(answer)
        )
        if size <= min(LONGEST_KEPT_BYTES, self._most_bytes):
            if self.bytes + size > self._most_bytes:
                self.clear()
            self._kept[key] = kept
            self.bytes += size
        return kept

    def _ended(self, now_ns: int) -> list[tuple[int, ...]]:
        ended = []
        for key, kept in self._kept.items():
            if now_ns < kept.until_ns:
                break
            ended.append(key)
        return ended

    def _drop(self, keys: Iterable[tuple[int, ...]]) -> None:
        for key in keys:
            self.bytes -= self._kept.pop(key).size
