"""Command lines of hints repeat what was given, and nothing else."""

from __future__ import annotations

from argparse import Namespace

import pytest

from keyferry.cli.hints import command_line


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "explain",
            "keyferry explain x --config 'a b' --bin-dir c --secret s1 --secret s2 --timeout 5 --insecure",
        ),
        ("lint", "keyferry lint x --bin-dir c"),
        ("kube contexts", "keyferry kube contexts x"),
    ],
)
def test_options_that_the_command_has_are_repeated(command: str, expected: str) -> None:
    args = Namespace(
        config="a b", bin_dir="c", secret=["s1", "s2"], timeout=5.0, insecure=True, output="json", other="x"
    )
    assert command_line(args, command, "x") == expected


def test_a_check_that_was_asked_for_is_asked_for_again() -> None:
    args = Namespace(check_registry=True, output="wide")
    assert command_line(args, "explain", "x") == "keyferry explain x --check-registry"


def test_defaults_are_not_repeated() -> None:
    args = Namespace(config=None, secret=[], timeout=60.0, insecure=False, ca_file="")
    assert command_line(args, "explain", "x") == "keyferry explain x"
