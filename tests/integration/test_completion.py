"""Completion, in the shells themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry.cli.run import COMMANDS
from keyferry.lint.catalogue import CODES
from support.commands import run_keyferry
from support.parts import need
from support.plugins import write_executable


def script(shell: str, folder: Path) -> Path:
    done = run_keyferry("completion", shell)
    assert done.returncode == 0
    path = folder / f"keyferry.{shell}"
    path.write_text(done.stdout)
    return path


def complete_in_bash(path: Path, *words: str) -> set[str]:
    listed = " ".join(f"'{word}'" for word in ("keyferry", *words))
    state = f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}"
    program = f'source {path}; {state}; _keyferry; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([need("bash"), "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            ("",),
            {*COMMANDS, "--help", "--version"},
            id="commands",
        ),
        pytest.param(("ex",), {"explain"}, id="a command"),
        pytest.param(("get", "x", "--re"), {"--request-token", "--reveal"}, id="an option"),
        pytest.param(
            ("get", "x", "-o", ""), {"table", "wide", "json", "yaml", "dockerconfig", "env"}, id="formats"
        ),
        pytest.param(("get", "x", "--output", "j"), {"json"}, id="a format"),
        pytest.param(("completion", "z"), {"zsh"}, id="shells"),
        pytest.param(("kube", "w"), {"whoami"}, id="subcommands"),
        pytest.param(("kube", "raw", "--kubec"), {"--kubeconfig"}, id="an option of a subcommand"),
        pytest.param(("records", "list", "--polic"), set(), id="not the option of another subcommand"),
        pytest.param(("records", "who", "x", "--policy", "Alw"), {"AlwaysVerify"}, id="a policy"),
        pytest.param(("plugin", "install", "ec"), {"ecr"}, id="a plugin"),
        pytest.param(
            ("lint", "--list", "KF15"),
            {code for code in CODES if code.startswith("KF15")},
            id="a code of lint",
        ),
        pytest.param(("plugin", "test", "x", "--only", "KP33"), {"KP330", "KP331", "KP332"}, id="a check"),
        pytest.param(("plugin", "test", "--list", "KP101"), {"KP101"}, id="a check to explain"),
    ],
)
def test_bash_completes(tmp_path: Path, words: tuple[str, ...], expected: set[str]) -> None:
    assert complete_in_bash(script("bash", tmp_path), *words) == expected


def test_bash_completes_files_where_a_value_is_free(tmp_path: Path) -> None:
    (tmp_path / "providers.yaml").touch()
    assert complete_in_bash(script("bash", tmp_path), "lint", f"{tmp_path}/prov") == {
        f"{tmp_path}/providers.yaml"
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("keyferry ex", "explain", id="a command"),
        pytest.param("keyferry get x --re", "--reveal", id="an option"),
        pytest.param("keyferry get x --output j", "json", id="a format"),
        pytest.param("keyferry completion z", "zsh", id="shells"),
        pytest.param("keyferry kube who", "whoami", id="subcommands"),
        pytest.param("keyferry records who x --policy Alw", "AlwaysVerify", id="a policy"),
        pytest.param("keyferry plugin install ec", "ecr", id="a plugin"),
        pytest.param("keyferry plugin test x --only KP10", "KP101", id="a check"),
        pytest.param("keyferry plugin test --list KP10", "KP101", id="a check to explain"),
        pytest.param("keyferry lint --list KF10", "KF101", id="a code of lint"),
        pytest.param("keyferry kube raw --context pr", "prod", id="a context"),
    ],
)
def test_fish_completes(tmp_path: Path, line: str, expected: str) -> None:
    assert expected in complete_in_fish(tmp_path, line)


def test_fish_describes_everything(tmp_path: Path) -> None:
    """Commands, subcommands and options; and a subcommand has none of the options of a command of its name."""
    assert complete_in_fish(tmp_path, "keyferry ex")["explain"].startswith("explain why the kubelet has")
    assert complete_in_fish(tmp_path, "keyferry plugin tr")["trace"].startswith("record one request")
    offers = complete_in_fish(tmp_path, "keyferry kube explain --n")
    assert offers["--no-run"] == "do not run the plugin and do not contact the server"
    assert complete_in_fish(tmp_path, "keyferry kube explain --bin") == {}


def complete_in_fish(folder: Path, line: str) -> dict[str, str]:
    """Return the offers with their descriptions."""
    path = script("fish", folder)
    program = f"source {path}; complete -C '{line}'"
    environment = {"HOME": str(folder), "PATH": f"{with_contexts(folder)}:/usr/bin:/bin"}
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", program],
        env={**environment, "XDG_CONFIG_HOME": str(folder), "KUBECONFIG": str(folder / "contexts.json")},
        capture_output=True,
        text=True,
        check=True,
    )
    offers = (offer.partition("\t") for offer in done.stdout.splitlines())
    return {name: text for name, _, text in offers}


def with_contexts(folder: Path) -> Path:
    """Write a kubeconfig with two contexts, and the program; return the folder of the program."""
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("prod", "test")]
    (folder / "contexts.json").write_text(json.dumps({"contexts": contexts}))
    bin_dir = folder / "bin"
    bin_dir.mkdir(exist_ok=True)
    write_executable(bin_dir / "keyferry", f'#!/bin/sh\nexec {sys.executable} -m keyferry "$@"\n')
    return bin_dir


def test_bash_completes_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kubeconfig has them at that moment."""
    monkeypatch.setenv("PATH", f"{with_contexts(tmp_path)}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "contexts.json"))
    path = script("bash", tmp_path)
    assert complete_in_bash(path, "kube", "raw", "--context", "") == {"prod", "test"}
    assert complete_in_bash(path, "plugin", "try", "x", "--context", "p") == {"prod"}


def test_zsh_loads_and_completes(tmp_path: Path) -> None:
    """The script is a function that zsh autoloads; the offers are caught where zsh would show them."""
    path = script("zsh", tmp_path)
    (tmp_path / "_keyferry").write_text(path.read_text())
    program = f"""
        fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D
        typeset -a offers
        _describe() {{ offers+=("${{(@P)2}}") }}
        _arguments() {{ offers+=("$@") }}
        autoload -Uz +X _keyferry; unfunction _keyferry; source {path}
        CURRENT=2; words=(keyferry ''); _keyferry; print -l -- $offers
        offers=(); CURRENT=3; words=(keyferry get ''); _keyferry; print -l -- $offers
        offers=(); CURRENT=3; words=(keyferry plugin ''); _keyferry; print -l -- $offers
        offers=(); CURRENT=4; words=(keyferry plugin test ''); _keyferry; print -l -- $offers
        offers=(); CURRENT=4; words=(keyferry kube raw ''); _keyferry; print -l -- $offers
        compadd() {{ print -l -- $found }}; _keyferry_contexts
    """
    environment = {
        **os.environ,
        "PATH": f"{with_contexts(tmp_path)}:{os.environ['PATH']}",
        "KUBECONFIG": str(tmp_path / "contexts.json"),
    }
    done = subprocess.run(
        [need("zsh"), "-f", "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert "explain:explain why the kubelet has" in done.stdout, done.stderr
    assert "*--reveal[show passwords instead of masking them]" in done.stdout
    assert "(table wide json yaml dockerconfig env)" in done.stdout
    assert "trace:record one request and its response without secrets" in done.stdout
    assert "*--only[run only this check; may be repeated]:value:(KP101 KP102 " in done.stdout
    assert (
        "*--list[explain all codes, or the one given in place of BINARY, and exit]::value:(KP101"
        in done.stdout
    )
    assert "*--context[the context]:context:_keyferry_contexts" in done.stdout
    assert done.stdout.endswith("prod\ntest\n"), done.stderr
