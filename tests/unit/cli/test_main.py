"""The command line as a whole."""

from __future__ import annotations

import pytest

from keyferry.cli.main import main

LIST = ["--policy", "AlwaysVerify", "--allow", "reg.example"]


@pytest.mark.parametrize(
    ("command", "words", "problem"),
    [
        ("get", [], "the following arguments are required: IMAGE"),
        ("lint", ["--list", "KF999"], "'KF999' is not a code; 'keyferry lint --list' shows all"),
        (
            "pull",
            ["reg.example/a", "--policy", "AlwaysVerify"],
            "--policy and --allow require --root DIR, the folder of the records",
        ),
        ("pull", ["reg.example/a", "--platform", "linux/arm64"], "pulls for its own platform"),
        ("pull", ["reg.example/a", "--root", "/nowhere", *LIST], "'AlwaysVerify' takes no allowlist"),
        ("records who", ["reg.example/a", "--root", "/nowhere", *LIST], "'AlwaysVerify' takes no allowlist"),
        ("records plan", ["--root", "/nowhere", *LIST], "'AlwaysVerify' takes no allowlist"),
        ("records prune", [], "give --cri, --images or --image-id"),
        ("records recover", [], "give --cri or --images"),
        ("plugin new", ["a/b"], "'a/b' is not a valid name of a plugin"),
        ("plugin install", ["ecr"], "no folder is given; set it with --bin-dir DIR"),
        ("plugin test", [], "no plugin is given; give the path of its executable"),
        (
            "plugin trace",
            ["x", "--replay", "y"],
            "--replay replaces the plugin and cannot be combined with BINARY",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_is_said_in_one_way(
    command: str, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the problem and what to type next, nothing on standard output, exit code 2."""
    assert main([*command.split(), *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert problem in shown.err
    assert shown.err.splitlines()[-1].endswith(f"; try 'keyferry {command} --help'")
    assert shown.err.count("\n") == 1
