"""How an experiment is repeated by hand: the command that is shown does what the kit did."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from keyferry.kit.lab.experiments import (
    Experiment,
    Surroundings,
    environment,
    repeat_command,
    repeat_variables,
)
from keyferry.kit.lab.requests import isolation, plan
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from support.parts import lacking
from support.plugins import write_executable

RECORDER = """\
#!/bin/sh
cat >"$0.stdin"
printf '%s' "$KUBERNETES_EXEC_INFO" >"$0.info"
"""


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_the_command_that_is_shown_repeats_the_experiment(kind: PluginKind, tmp_path: Path) -> None:
    """What a shell feeds the plugin is byte for byte what the kit did."""
    executable = write_executable(tmp_path / "plugin", RECORDER)
    plugin = PluginUnderTest(path=str(executable), kind=kind, images=("registry.example/team/app",))
    compared = 0
    for experiment in plan(plugin, "/nowhere/canary"):
        if "huge exec info" in experiment.name:
            continue
        subprocess.run(
            ["sh", "-c", repeat_command(plugin, experiment)], check=True, stderr=subprocess.DEVNULL
        )
        fed = Path(f"{executable}.stdin").read_bytes()
        assert fed == (experiment.stdin or b""), experiment.name
        if kind == PluginKind.CLUSTER and experiment.env:
            info = Path(f"{executable}.info").read_text()
            assert info.rstrip("\n") == experiment.env[0][1].rstrip("\n"), experiment.name
        compared += 1
    assert compared > 12


def test_a_pasted_command_takes_its_secrets_from_the_shell(tmp_path: Path) -> None:
    """With the variables that are named set, it is the same run: variables, arguments and input."""
    recorder = RECORDER + 'printf "%s\\n" "$KEY" "$@" >"$0.words"\n'
    executable = write_executable(tmp_path / "plugin", recorder)
    plugin = PluginUnderTest(
        path=str(executable),
        images=("registry.example/team/app",),
        args=("--region=eu", "--password", "s3cret argument", "--token=s3cret-'flag", "s3cret-positional"),
        env=(("KEY", "s3cret-variable"), ("MY.KEY", "s3cret-other")),
        token="s3cret-service-account-token",
    )
    known = {
        "KEY": "s3cret-variable",
        "MY_KEY": "s3cret-other",
        "ARG_3": "s3cret argument",
        "ARG_4": "s3cret-'flag",
        "ARG_5": "s3cret-positional",
        "SERVICE_ACCOUNT_TOKEN": "s3cret-service-account-token",
    }
    commands = {
        each.name: repeat_command(plugin, each, {"s3cret-positional"})
        for each in plan(plugin, "/nowhere/canary")
    }
    phrases = repeat_variables(plugin, list(commands.values()))
    assert [phrase.split()[0] for phrase in phrases] == list(known)
    for experiment in plan(plugin, "/nowhere/canary"):
        command = commands[experiment.name]
        assert "s3cret" not in command
        assert "*****" not in command
        subprocess.run(["sh", "-c", command], check=True, env={**os.environ, **known})
        assert Path(f"{executable}.stdin").read_bytes() == (experiment.stdin or b""), experiment.name
        words = Path(f"{executable}.words").read_text().splitlines()
        assert words == ["s3cret-variable", *plugin.args]


@pytest.mark.parametrize("kind", [PluginKind.IMAGE, PluginKind.CLUSTER])
def test_a_command_survives_the_terminal(kind: PluginKind) -> None:
    """Nothing in it is a control character, which the terminal would be shown in another form."""
    plugin = PluginUnderTest(path="/plugin", kind=kind, images=("registry.example/team/app",))
    for experiment in plan(plugin, "/nowhere/canary"):
        command = repeat_command(plugin, experiment)
        assert command.isprintable(), experiment.name


def test_no_secret_is_in_a_command(tmp_path: Path) -> None:
    """Tokens, variables and arguments that look like secrets are variables of the shell."""
    plugin = PluginUnderTest(
        path=str(tmp_path / "plugin"),
        images=("registry.example/team/app",),
        args=("--password", "s3cret-argument"),
        env=(("KEY", "s3cret-variable"),),
        token="s3cret-service-account-token",
    )
    for experiment in plan(plugin, "/nowhere/canary"):
        command = repeat_command(plugin, experiment)
        assert "s3cret" not in command


def test_the_environment_is_ours_with_a_home_of_its_own() -> None:
    """Configured variables go last, and a bare run has hardly anything else."""
    around = Surroundings(
        home="/home",
        temporary="/tmp",
        environ={"PATH": "/bin", "HOME": "/root", "X": "1", "XDG_CACHE_HOME": "/root/c"},
    )
    plugin = PluginUnderTest(path="/plugin", env=(("A", "2"), ("PATH", "/other")))
    assert environment(plugin, around, Experiment(name="x")) == {
        "PATH": "/other",
        "HOME": "/home",
        "TMPDIR": "/tmp",
        "X": "1",
        "A": "2",
    }
    assert environment(plugin, around, Experiment(name="x", is_bare=True)) == {"PATH": "/other", "A": "2"}
    assert environment(plugin, around, Experiment(name="x", unset=("HOME", "TMPDIR", "X"))) == {
        "PATH": "/other",
        "A": "2",
    }


def test_names_of_experiments_are_unique() -> None:
    """A run is known by its experiment's name."""
    for kind in (PluginKind.IMAGE, PluginKind.CLUSTER):
        plugin = PluginUnderTest(path="/plugin", kind=kind, images=("r.io/a", "r.io/b"))
        names = [experiment.name for experiment in plan(plugin, "/nowhere/canary")]
        assert len(names) == len(set(names))


def test_the_network_is_really_gone() -> None:
    """Where the system can make an empty network, a program in it cannot reach even this machine."""
    prefix = isolation()
    if not prefix:
        lacking("network-namespace")
    shown = subprocess.run(
        [*prefix, "cat", "/proc/net/route"], capture_output=True, text=True, check=True
    ).stdout
    assert len(shown.splitlines()) <= 1
    assert os.path.exists("/proc/net/route")
