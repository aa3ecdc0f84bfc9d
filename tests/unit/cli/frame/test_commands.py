"""The exit codes."""

from __future__ import annotations

import pytest

from keyferry.cli.frame.commands import EXIT_CODES, Exit, most_severe


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 6), 6),
        ((6, 4), 4),
        ((6, 124, 5), 124),
        ((3, 6), 3),
        ((0, 5, 6, 1), 1),
        ((124, 1), 1),
    ],
)
def test_of_several_a_sure_no_goes_first_and_unknown_before_yes(
    codes: tuple[int, ...], expected: int
) -> None:
    assert most_severe(map(Exit, codes)) == expected


def test_every_code_that_a_command_ends_with_is_in_the_help() -> None:
    """All but the two that shells know."""
    for code in Exit:
        assert f"{int(code)} " in EXIT_CODES or code in (Exit.INTERRUPTED, Exit.PIPE)
