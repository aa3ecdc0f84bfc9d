"""Lint finds everything at once, and gives Kubernetes' verdict in every version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.layout import lay_out, lay_out_programs
from keyferry.errors import ConfigError, Problem
from keyferry.images.config.validate import GATE
from keyferry.images.load import check_config, load_providers
from keyferry.lint.code import Finding
from keyferry.lint.kinds.providers import lint
from support.lint import codes, config, lint_provider, only, write

VECTORS = Path(__file__).resolve().parents[2] / "conformance" / "vectors" / "provider_config.json"


def test_a_good_config_is_clean(tmp_path: Path) -> None:
    report = lint(write(tmp_path, config()))
    assert (report.findings, report.accepted, report.providers, report.kubernetes_text) == ((), True, 1, "")


def test_all_problems_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "apiVersion: kubelet.config.k8s.io/v1\n"
        "kind: CredentialProviderConfig\n"
        "providers:\n"
        "- name: a/b\n"
        "  apiVersion: v1\n"
        "  matchImages:\n"
        "  - reg.io/*\n"
        "  - reg[0-9].io\n"
        "  defaultCacheDuration: -5s\n"
        "  extra: 1\n"
    )
    report = lint(write(tmp_path, text))
    places = [(finding.code, finding.line, finding.column) for finding in report.findings]
    assert places == [
        ("KF121", 4, 3),
        ("KF122", 5, 3),
        ("KF151", 7, 5),
        ("KF124", 8, 5),
        ("KF126", 9, 3),
        ("KF107", 10, 3),
    ]
    assert report.kubernetes_text.endswith('strict decoding error: unknown field "providers[0].extra"')


def test_what_only_follows_from_another_problem_is_not_said(tmp_path: Path) -> None:
    """A misspelt field is not missing too, and a value of the wrong type is not empty too."""
    text = config({"defaultCacheDuration": 5, "env": [{"name": "A", "value": True}], "name": 1})
    report = lint(
        write(
            tmp_path,
            text.replace("matchImages", "matchimages").replace('"apiVersion": "cred', '"api_version": "cred'),
        )
    )
    assert sorted(codes(report)) == ["KF107", "KF107", "KF109", "KF109", "KF109"]
    messages = " ".join(finding.message for finding in report.findings)
    assert "did you mean 'matchImages'?" in messages
    assert "did you mean 'apiVersion'?" in messages
    assert "put it in quotes" in messages


def test_an_unknown_field_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    finding = only(lint_provider(tmp_path, env=[{"name": "A", "value": "b", "xyz": 1}]))
    assert finding.message == "unknown field, expected one of name, value"


def test_a_broken_file_does_not_hide_the_problems_of_another(tmp_path: Path) -> None:
    write(tmp_path, "a: [", "1.yaml")
    write(tmp_path, config({"matchImages": []}), "2.json")
    report = lint(str(tmp_path))
    assert codes(report) == ["KF103", "KF123"]
    assert "1.yaml" in report.kubernetes_text


TOKENS = {"serviceAccountTokenAudience": "a", "requireServiceAccount": True}
ON, OFF = {GATE: True}, {GATE: False}
VERSIONS = [
    pytest.param("1.32", {}, {}, ["KF138"], id="not there yet"),
    pytest.param("1.33", {}, {}, ["KF130"], id="off by default"),
    pytest.param("1.33", ON, {}, [], id="on, and cacheType is not needed"),
    pytest.param("1.33", ON, {"cacheType": "Token"}, ["KF138"], id="cacheType is unknown"),
    pytest.param("1.34", {}, {"cacheType": "Token"}, [], id="on by default"),
    pytest.param("v1.34.2", {}, {}, ["KF137"], id="cacheType is required"),
    pytest.param("1.36", OFF, {"cacheType": "Token"}, ["KF130"], id="turned off"),
    pytest.param("1.37", {}, {"cacheType": "Token"}, [], id="the newest"),
    pytest.param("1.37", {}, {}, ["KF137"], id="the newest checks as well"),
]


@pytest.mark.parametrize(("version", "gates", "fields", "expected"), VERSIONS)
def test_service_account_tokens_follow_the_version_and_the_gate(
    tmp_path: Path, version: str, gates: dict[str, bool], fields: dict[str, str], expected: list[str]
) -> None:
    path = write(tmp_path, config({"tokenAttributes": TOKENS | fields}))
    report = lint(path, kubernetes=version, gates=gates)
    assert codes(report) == expected
    assert bool(report.kubernetes_text) == bool(expected)


def test_a_directory_is_refused_before_1_34(tmp_path: Path) -> None:
    write(tmp_path, config())
    assert lint(str(tmp_path), kubernetes="1.34").findings == ()
    report = lint(str(tmp_path), kubernetes="1.33")
    assert (only(report).code, only(report).kubernetes) == ("KF112", "before 1.34")
    assert report.kubernetes_text.endswith(f"read {tmp_path}: is a directory")


def test_a_missing_or_empty_target_is_a_finding(tmp_path: Path) -> None:
    missing = lint(str(tmp_path / "none"))
    assert (codes(missing), missing.unreadable, missing.accepted) == (["KF101"], True, False)
    empty = lint(str(tmp_path))
    assert (codes(empty), empty.unreadable) == (["KF102"], False)


def _lay_out(given: dict[str, object], folder: Path) -> str:
    lay_out(folder, {f"{name}/": None for name in given.get("dirs") or ()})  # type: ignore[attr-defined] # names
    lay_out(folder, given.get("files"))
    kind, _, name = str(given["path"]).partition(":")
    return str(folder) if kind == "dir" else f"{folder}/{name}" if kind == "file" else ""


def test_the_verdict_is_that_of_kubernetes_in_every_recorded_case(tmp_path: Path) -> None:
    """A config has findings of severity error exactly if Kubernetes refused it."""
    wrong = []
    cases = json.loads(VECTORS.read_text("utf-8"))["cases"]
    for number, case in enumerate(cases):
        if case["input"].get("op") == "register":
            continue
        (tmp_path / str(number)).mkdir()
        path = _lay_out(case["input"], tmp_path / str(number))
        report = lint(path, gates={GATE: bool(case["input"].get("featureGate", True))})
        if report.accepted != case["want"]["ok"] or report.accepted == bool(report.kubernetes_text):
            wrong.append(case["name"])
    assert cases
    assert wrong == []


def _raised(path: str, bin_dir: Path, *, gate: bool = True) -> tuple[list[tuple[object, ...]], str]:
    try:
        check_config(path, str(bin_dir), service_account_tokens=gate)
    except ConfigError as error:
        return [_place(problem) for problem in error.problems], error.kubernetes_text
    return [], ""


def _place(found: Problem | Finding) -> tuple[object, ...]:
    return found.code, found.file, found.line, found.column, found.path, found.message, found.kubernetes_text


def _errors(path: str, bin_dir: Path, *, gate: bool = True) -> tuple[list[tuple[object, ...]], str]:
    report = lint(path, bin_dir=str(bin_dir), gates={GATE: gate})
    errors = [_place(finding) for finding in report.findings if finding.severity == "error"]
    return errors, report.kubernetes_text


def test_the_library_raises_the_errors_of_lint(tmp_path: Path) -> None:
    """One set of rules: all of them, in the same order, with the same words, for every recorded config."""
    bin_dir = tmp_path / "bin"
    lay_out_programs(bin_dir, {"one": 0o755, "plain": 0o644, "folder/": 0o755})
    refused = 0
    for number, case in enumerate(json.loads(VECTORS.read_text("utf-8"))["cases"]):
        (tmp_path / str(number)).mkdir()
        path = _lay_out(case["input"], tmp_path / str(number))
        gate = bool(case["input"].get("featureGate", True))
        for folder in (bin_dir, tmp_path / "missing"):
            raised = _raised(path, folder, gate=gate)
            assert raised == _errors(path, folder, gate=gate), case["name"]
            refused += bool(raised[0])
    assert refused > 500


def test_no_problem_hides_another_from_the_library(tmp_path: Path) -> None:
    """Of the bin dir, of reading, of validation and of executables at once, sorted by file and line."""
    lay_out_programs(tmp_path / "bin", {"plain": 0o644})
    folder = tmp_path / "config"
    folder.mkdir()
    write(folder, "a: [", "1.yaml")
    write(folder, config({"name": "plain", "defaultCacheDuration": "-1s"}), "2.json")
    write(folder, config({"name": "none", "extra": 1}), "3.json")
    problems, text = _raised(str(folder), tmp_path / "bin")
    assert [problem[0] for problem in problems] == ["KF103", "KF142", "KF126", "KF141", "KF107"]
    assert text == lint(str(folder)).kubernetes_text
    problems, text = _raised(str(folder), tmp_path / "no-bin")
    assert sorted(str(problem[0]) for problem in problems) == ["KF103", "KF107", "KF126", "KF140"]
    assert text == f"plugin binary directory {tmp_path}/no-bin did not exist"


def test_a_negative_duration_is_an_error_at_its_place(tmp_path: Path) -> None:
    """A duration of nothing is only worth a look."""
    finding = only(lint_provider(tmp_path, defaultCacheDuration="-1ns"))
    assert (finding.code, finding.severity, finding.path) == (
        "KF126",
        "error",
        "providers[0].defaultCacheDuration",
    )
    assert codes(lint_provider(tmp_path, defaultCacheDuration="0s")) == ["KF176"]
    assert codes(lint_provider(tmp_path, defaultCacheDuration="1ns")) == []


def test_the_library_raises_every_error_of_lint(tmp_path: Path) -> None:
    """All stages at once, by position, and with the field that was meant."""
    text = (
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
        "- name: a/b\n  matchimages: [reg.example]\n  defaultCacheDuration: -1s\n"
        "- name: c\n  apiVersion: v9\n  matchImages: ['reg.example:x']\n"
    )
    path, bin_dir = write(tmp_path, text), tmp_path / "bin"
    bin_dir.mkdir(mode=0o755)
    errors = [each for each in lint(path, bin_dir=str(bin_dir)).findings if each.severity == "error"]
    with pytest.raises(ConfigError) as caught:
        load_providers(path, bin_dir)
    problems = caught.value.problems
    assert [(each.code, each.path, each.line, each.message) for each in problems] == [
        (each.code, each.path, each.line, each.message) for each in errors
    ]
    assert [each.line for each in problems] == sorted(each.line or 0 for each in problems)
    assert "did you mean 'matchImages'?" in str(caught.value)
    assert {"KF107", "KF121", "KF122", "KF124", "KF125", "KF126", "KF141"} <= {each.code for each in problems}
