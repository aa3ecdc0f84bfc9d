"""How many pods ask one of several questions: a pod with several images asks several, and is one pod all the same."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet

__all__ = ["Counts"]

# Beyond so many different combinations, a pod with several questions counts once for each of them.
_MAX_COMBINATIONS = 10_000


class Counts:
    """Counts what asks combinations of questions, in bounded memory."""

    def __init__(self) -> None:
        self._counted: dict[tuple[Hashable, ...], int] = {}
        self._with_key: dict[Hashable, list[tuple[Hashable, ...]]] = {}

    def add(self, keys: Iterable[Hashable]) -> None:
        """Count one that asks the questions with these *keys*."""
        combined = tuple(dict.fromkeys(keys))
        is_kept = combined in self._counted or len(combined) == 1 or len(self._counted) < _MAX_COMBINATIONS
        for each in (combined,) if is_kept else ((key,) for key in combined):
            if each not in self._counted:
                self._counted[each] = 0
                for key in each:
                    self._with_key.setdefault(key, []).append(each)
            self._counted[each] += 1

    def count(self, keys: AbstractSet[Hashable]) -> int:
        """Return how many ask one of the questions with these *keys*."""
        asked = {each for key in keys for each in self._with_key.get(key, ())}
        return sum(self._counted[each] for each in asked)
