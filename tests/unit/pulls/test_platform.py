"""Platforms and how they are written."""

from __future__ import annotations

import os

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.pulls.manifest import Platform, parse_platform, preferences, this_machine


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("linux/amd64", "linux/amd64"),
        ("linux/x86_64", "linux/amd64"),
        ("Linux/aarch64", "linux/arm64"),
        ("linux/arm64/v8", "linux/arm64"),
        ("linux/arm", "linux/arm/v7"),
        ("linux/arm/6", "linux/arm/v6"),
        ("linux/armel", "linux/arm/v6"),
        ("windows/amd64", "windows/amd64"),
        ("linux/amd64/v1", "linux/amd64"),
    ],
)
def test_one_platform_has_one_spelling(text: str, shown: str) -> None:
    assert str(parse_platform(text)) == shown


@pytest.mark.parametrize("text", ["", "linux", "linux/", "/amd64", "a/b/c/d", "linux/*", "linux/am d64"])
def test_what_is_no_platform_is_said_with_an_example(text: str) -> None:
    with pytest.raises(EnvironmentProblem, match="linux/arm64"):
        parse_platform(text)


def test_older_variants_run_on_newer_ones_and_not_the_other_way() -> None:
    assert [str(each) for each in preferences(Platform(os="linux", architecture="arm", variant="v7"))] == [
        "linux/arm/v7",
        "linux/arm/v6",
        "linux/arm/v5",
    ]
    assert Platform(os="linux", architecture="arm", variant="v7") in preferences(
        Platform(os="linux", architecture="arm64")
    )
    assert Platform(os="linux", architecture="arm64") not in preferences(
        Platform(os="linux", architecture="arm", variant="v7")
    )
    assert [str(each) for each in preferences(Platform(os="linux", architecture="amd64", variant="v3"))] == [
        "linux/amd64/v3",
        "linux/amd64/v2",
        "linux/amd64",
    ]
    assert [str(each) for each in preferences(Platform(os="linux", architecture="riscv64"))] == [
        "linux/riscv64"
    ]


def test_this_machine_is_one_of_them() -> None:
    machine = this_machine()
    assert machine.os == os.uname().sysname.lower()
    assert machine == parse_platform(str(machine))
