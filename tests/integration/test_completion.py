"""Completion, in the shells themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from keyferry.cli.frame.commands import COMMANDS
from support.commands import run_keyferry
from support.parts import need


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
    ],
)
def test_fish_completes(tmp_path: Path, line: str, expected: str) -> None:
    path = script("fish", tmp_path)
    program = f"source {path}; complete -C '{line}'"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in [offer.split("\t")[0] for offer in done.stdout.splitlines()]


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
    """
    done = subprocess.run([need("zsh"), "-f", "-c", program], capture_output=True, text=True, check=False)
    assert "explain:explain why the kubelet has" in done.stdout, done.stderr
    assert "*--reveal[show passwords instead of masking them]" in done.stdout
    assert "(table wide json yaml dockerconfig env)" in done.stdout
