"""The chain of an error."""

from __future__ import annotations

from collections.abc import Iterator


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all errors behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
