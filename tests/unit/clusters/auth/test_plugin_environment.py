"""A plugin's environment: of equal names the last counts, and what is told of the cluster comes last."""

from __future__ import annotations

import os
import sys

import pytest

from keyferry.clusters.auth import plugin_environment
from keyferry.clusters.auth.plugin_environment import (
    check_size,
    merge_entries,
    plugin_entries,
    process_entries,
    to_mapping,
)
from keyferry.errors import EnvironmentProblem
from keyferry.invoke.run import run


@pytest.mark.parametrize(
    ("entries", "merged"),
    [
        ([], []),
        ([b"A=1", b"B=2", b"A=3"], [b"B=2", b"A=3"]),
        ([b"A=1", b"A=1"], [b"A=1"]),
        ([b"A=", b"a="], [b"A=", b"a="]),
        ([b"A=b=c", b"A=d"], [b"A=d"]),
        ([b"=x", b"=y"], [b"=y"]),
        ([b"=C:=1", b"=D:=2", b"=C:=3"], [b"=D:=2", b"=C:=3"]),
        ([b"bare", b"A=1"], [b"bare", b"A=1"]),
        ([b"A", b"A=1", b"A", b"A=2"], [b"A", b"A", b"A=2"]),
        ([b"", b"A=1", b""], [b"A=1"]),
    ],
)
def test_the_last_of_equal_names_stays_in_its_place(entries: list[bytes], merged: list[bytes]) -> None:
    assert list(merge_entries(entries)) == merged


def test_nothing_can_replace_what_is_told_of_the_cluster() -> None:
    env = [("A", "$B"), ("KUBERNETES_EXEC_INFO", "config"), ("N=ME", "v"), ("é", "\udcff")]
    entries = plugin_entries([b"KUBERNETES_EXEC_INFO=outer", b"A=1"], env, "told\n")
    assert merge_entries(entries) == (
        b"A=$B",
        b"N=ME=v",
        b"\xc3\xa9=\xff",
        b"KUBERNETES_EXEC_INFO=told\n",
    )


def test_lone_surrogates_do_no_harm() -> None:
    assert plugin_entries([], [("A", "\ud800")], "")[0] == b"A=?"


def test_a_nul_is_refused_without_its_variable() -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        merge_entries([b"SECRET=a\0b"])
    assert caught.value.kubernetes_text == "exec: environment variable contains NUL"
    assert "SECRET" not in str(caught.value)


def test_a_mapping_keeps_the_order_and_drops_what_has_no_name() -> None:
    assert list(to_mapping([b"B=1", b"=x", b"bare", b"A=2=3", b"=C:=4"]).items()) == [
        (b"B", b"1"),
        (b"bare", b""),
        (b"A", b"2=3"),
        (b"=C:", b"4"),
    ]


ENTRIES = [b"A", b"A=1", b"A", b"B=2=3", b"=C:=4"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such entries")
@pytest.mark.parametrize("terminal", [None, (0, 2)], ids=["by itself", "at the terminal"])
def test_entries_of_any_form_reach_a_program_as_they_are(terminal: tuple[int, int] | None) -> None:
    """Without a value, each of them beside a variable of the same spelling; with a name that begins with '='."""
    done = run(("/usr/bin/env", "-0"), environ=to_mapping(ENTRIES), terminal=terminal)
    assert done.stdout.removesuffix(b"\0").split(b"\0") == ENTRIES


def test_this_processs_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYFERRY_TEST", "x")
    assert b"KEYFERRY_TEST=x" in process_entries()


@pytest.mark.skipif(plugin_environment._limit() is None, reason="Linux limits one variable")
def test_the_limit_of_the_system_is_known_beforehand() -> None:
    """The largest variable that passes is one that the kernel takes as well."""
    limit = plugin_environment._limit() or 0
    fits = "x" * (limit - len("KUBERNETES_EXEC_INFO=") - 1)
    check_size(fits)
    pid = os.posix_spawn("/bin/true", ["true"], {"KUBERNETES_EXEC_INFO": fits})
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with pytest.raises(EnvironmentProblem, match="certificate-authority-data") as caught:
        check_size(fits + "x")
    assert caught.value.kubernetes_text == "argument list too long"
    with pytest.raises(OSError, match="Argument list too long"):
        os.posix_spawn("/bin/true", ["true"], {"KUBERNETES_EXEC_INFO": fits + "x"})
