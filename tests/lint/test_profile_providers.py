"""The provider file of ClusterProfiles: what a controller refuses, what is never used, and what profiles may do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.commands import run_in_process
from support.lint import SECRET, Report, codes, lint_target, write

KIND = "provider file of ClusterProfiles"
V1 = "client.authentication.k8s.io/v1"
GOOD: dict[str, object] = {"name": "cloud", "execConfig": {"apiVersion": V1, "command": "/bin/sh"}}


def lint(folder: Path, *providers: object, **fields: object) -> Report:
    """Lint a file with these providers; *fields* are those of the execConfig of a good one before them."""
    first = {**GOOD, "execConfig": {**GOOD["execConfig"], **fields}} if fields else None  # type: ignore[dict-item]  # an object
    listed = [first, *providers] if first else list(providers)
    return lint_target(write(folder, json.dumps({"providers": listed}), "providers.json"))


def test_a_good_file_has_no_findings(tmp_path: Path) -> None:
    report = lint(tmp_path, GOOD)
    assert (report.findings, report.kind) == ((), KIND)


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ({"profileSourcedCLIArgsPolicy": "Prepend"}, [("KF810", "profileSourcedCLIArgsPolicy")]),
        ({"profileSourcedEnvVarsPolicy": "replace"}, [("KF810", "profileSourcedEnvVarsPolicy")]),
        ({"profileSourcedCLIArgsPolicy": "Ignore", "profileSourcedEnvVarsPolicy": "Ignore"}, []),
        ({"profileSourcedCLIArgsPolicy": "Append"}, [("KF860", "profileSourcedCLIArgsPolicy")]),
        ({"profileSourcedEnvVarsPolicy": "Replace"}, [("KF860", "profileSourcedEnvVarsPolicy")]),
        ({"execConfig": None}, [("KF811", "")]),
        ({"execConfig": {"apiVersion": V1}}, [("KF811", "execConfig")]),
        ({"execConfig": {"command": "/bin/sh"}}, [("KF812", "execConfig.apiVersion")]),
        ({"name": ""}, [("KF854", "")]),
        ({"profileSourcedCliArgsPolicy": "Append"}, [("KF850", "profileSourcedCliArgsPolicy")]),
        ({"name": 5}, [("KF803", "name"), ("KF854", "")]),
    ],
    ids=[
        "arguments",
        "variables",
        "ignored",
        "arguments of profiles",
        "variables of profiles",
        "no plugin",
        "no command",
        "no version",
        "no name",
        "misspelt",
        "number",
    ],
)
def test_a_provider_that_does_not_do_as_meant_is_named(
    tmp_path: Path, provider: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    report = lint(tmp_path, {"profileSourcedEnvVarsPolicy": "Ignore", **GOOD, **provider})
    prefix = "providers[0]"
    found = {(each.code, each.path.removeprefix(prefix).removeprefix(".")) for each in report.findings}
    assert found == set(expected)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"command": "./plugin"}, ["KF276", "KF855"]),
        ({"command": "no-such-program-anywhere"}, ["KF275"]),
        ({"interactiveMode": "IfAvailable"}, ["KF861"]),
        ({"interactiveMode": "Never"}, []),
        ({"args": ["--token", SECRET]}, ["KF271"]),
        ({"env": [{"name": "API_TOKEN", "value": SECRET}]}, ["KF271"]),
        ({"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}, ["KF277"]),
    ],
    ids=["relative", "absent", "terminal", "never", "argument", "variable", "loader"],
)
def test_the_rules_for_plugins_are_those_of_kubeconfigs(
    tmp_path: Path, fields: dict[str, object], expected: list[str]
) -> None:
    report = lint(tmp_path, **fields)
    assert sorted(codes(report)) == expected
    assert SECRET not in str([str(each) for each in report.findings])


def test_the_second_provider_of_a_name_is_never_used(tmp_path: Path) -> None:
    report = lint(tmp_path, GOOD, GOOD)
    (finding,) = report.findings
    assert (finding.code, finding.path) == ("KF853", "providers[1].name")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"providers": [{"execConfig": {"command": ]}', ["KF801"]),
        (f"providers:\n- name: cloud\n  execConfig: {{apiVersion: {V1}, command: /bin/sh}}\n", ["KF802"]),
        (
            f'{{"providers": [{{"name": "a", "name": "b", "execConfig": {json.dumps(GOOD["execConfig"])}}}]}}',
            ["KF851"],
        ),
    ],
    ids=["broken", "YAML", "twice"],
)
def test_a_text_that_controllers_do_not_read_as_meant_is_named(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    report = lint_target(write(tmp_path, text, "providers.json"))
    assert (codes(report), report.kind) == (expected, KIND)


@pytest.mark.skipif(sys.platform == "win32", reason="owners and modes")
def test_a_file_that_others_can_write_is_named_where_it_is_used(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"providers": [GOOD]}), "providers.json")
    Path(path).chmod(0o666)
    assert codes(lint_target(path)) == ["KF852"]
    assert codes(lint_target(path, elsewhere=True)) == []


def test_the_line_is_shown_without_secrets(tmp_path: Path) -> None:
    text = json.dumps(
        {"providers": [{**GOOD, "execConfig": {"apiVersion": V1, "command": "./x", "args": [SECRET]}}]}
    )
    done = run_in_process("lint", write(tmp_path, text, "providers.json"))
    assert done.returncode == 1
    assert '"command": "./x"' in done.stdout
    assert SECRET not in done.stdout + done.stderr
