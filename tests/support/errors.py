"""What hangs on an error."""

from collections.abc import Iterator


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all that are behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
