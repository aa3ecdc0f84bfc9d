"""A file has errors exactly if Kubernetes refuses it: recorded files and public ones; the library says the same."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from conformance.layout import lay_out, lay_out_programs
from keyferry import load_providers
from keyferry.errors import ConfigError
from support.commands import run_in_process
from support.lint import Report, config, lint_target, write
from support.parts import BEYOND_CI
from support.public_configs import find_public_configs, verdicts

PUBLIC = find_public_configs()
RECORDED = Path(__file__).resolve().parents[1] / "conformance" / "vectors" / "kubeconfig.json"
PROVIDERS = RECORDED.with_name("provider_config.json")
GATE = "KubeletServiceAccountTokenForCredentialProviders"
Json = dict[str, Any]


def _verdicts() -> list[dict[str, Any]]:
    return verdicts("credential-provider-config")


@pytest.mark.skipif(not _verdicts(), reason=BEYOND_CI["public-configs"])
def test_public_configs_get_the_verdict_of_kubernetes() -> None:
    wrong = {}
    for entry in _verdicts():
        want, path = entry["verdict"], str(PUBLIC / entry["file"])
        report = lint_target(path, is_read_by_kubelet=True)
        texts = [finding.kubernetes_text for finding in report.findings if finding.severity == "error"]
        if report.accepted != want["accepted"]:
            wrong[entry["file"]] = f"accepted: {report.accepted}"
        elif want["errors"] is not None and texts != want["errors"]:
            wrong[entry["file"]] = f"errors: {texts}"
        elif _shape_of_config(report.kubernetes_text) != _shape_of_config(want["error"] or ""):
            wrong[entry["file"]] = report.kubernetes_text
        # As the config of a node; given as a file, a document with a config inside is linted for that one.
        elif (run_in_process("lint", "--severity", "error", KEYFERRY_CONFIG=path).returncode == 0) != want[
            "accepted"
        ]:
            wrong[entry["file"]] = "exit status"
    assert wrong == {}


def _shape(text: str, stage: str, *ends: str) -> str:
    """The text of a stage without the file's name, up to the first of *ends*."""
    before, colon, rest = text.partition('": ')
    if before.startswith(stage):
        text = stage + colon + rest
    for end in ends:
        text = text.partition(end)[0]
    return text


def _shape_of_config(text: str) -> str:
    """A text without the name of Go's scheme, and the details of its JSON parser."""
    return _shape(text, "error decoding config", " in scheme ", "json parse error: ")


NO_CONTEXT = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)


def _refusals(verdict: Json) -> list[str]:
    """What Kubernetes holds against a file: on loading, on validation, or when the current context is used.

    That there is no context is no refusal of the file: it may be one of several.
    """
    found = [verdict["load_error"], *(verdict["validation_errors"] or ())]
    found += [verdict["client_config_error"], verdict["transport_error"]]
    return [text for text in found if text and not text.endswith(NO_CONTEXT)]


def _public() -> list[dict[str, Any]]:
    return verdicts("kubeconfig")


@pytest.mark.skipif(not _public(), reason=BEYOND_CI["public-configs"])
def test_public_kubeconfigs_get_the_verdict_of_kubernetes() -> None:
    wrong = {}
    for entry in _public():
        verdict, path = entry["verdict"], PUBLIC / entry["file"]
        report = lint_target(str(path))
        texts = [finding.kubernetes_text for finding in report.findings if finding.severity == "error"]
        if report.accepted != (not _refusals(verdict)):
            wrong[entry["file"]] = f"accepted: {report.accepted}"
        elif verdict["validation_errors"] is not None and sorted(texts) != sorted(
            verdict["validation_errors"]
        ):
            wrong[entry["file"]] = f"errors: {texts}"
        elif not report.accepted and _shape_of_kubeconfig(report.kubernetes_text) != _shape_of_kubeconfig(
            verdict["client_config_error"]
        ):
            wrong[entry["file"]] = report.kubernetes_text
        elif (run_in_process("lint", str(path), "--severity", "error").returncode == 0) != (
            not _refusals(verdict)
        ):
            wrong[entry["file"]] = "exit status"
    assert wrong == {}


def _shape_of_kubeconfig(text: str) -> str:
    """A text without where in a value its decoder stopped."""
    return _shape(text, "error loading config file", " at input byte")


def _recorded() -> list[Json]:
    cases = json.loads(RECORDED.read_text("utf-8"))["cases"]
    return [
        case
        for case in cases
        if case["input"]["op"] == "load"
        and set(case["input"].get("files") or ()) == {"config"}
        and case["input"].get("kubeconfig") == "$DIR/config"
        and not {"overrides", "explicit"} & set(case["input"])
    ]


def test_recorded_kubeconfigs_get_the_verdict_of_kubernetes(tmp_path: Path) -> None:
    """Every recorded file that stands alone, by the answer of client-go's own loader, validation and transport."""
    cases = _recorded()
    assert cases
    wrong = {}
    for case in cases:
        text, want = case["input"]["files"]["config"], case["want"]
        data = text.replace("$DIR", str(tmp_path)).encode() if isinstance(text, str) else None
        if data is None:
            continue
        (tmp_path / "config").write_bytes(data)
        client = want.get("client_config") or {}
        verdict = {
            "load_error": want["load_error"],
            "validation_errors": want.get("validate_errors_sorted"),
            "client_config_error": client.get("error"),
            "transport_error": client.get("transport_error"),
        }
        refused = _refusals(verdict)
        report = lint_target(str(tmp_path / "config"))
        if report.accepted == bool(refused):
            wrong[case["name"]] = [refused, [finding.code for finding in report.findings]]
    assert wrong == {}


def _lay_out(given: dict[str, object], folder: Path) -> str:
    lay_out(folder, {f"{name}/": None for name in given.get("dirs") or ()})  # type: ignore[attr-defined] # names
    lay_out(folder, given.get("files"))
    kind, _, name = str(given["path"]).partition(":")
    return str(folder) if kind == "dir" else f"{folder}/{name}" if kind == "file" else ""


def test_recorded_configs_get_the_verdict_of_kubernetes(tmp_path: Path) -> None:
    """A config has findings of severity error exactly if Kubernetes refused it."""
    wrong = []
    cases = json.loads(PROVIDERS.read_text("utf-8"))["cases"]
    for number, case in enumerate(cases):
        if case["input"].get("op") == "register":
            continue
        (tmp_path / str(number)).mkdir()
        path = _lay_out(case["input"], tmp_path / str(number))
        gates = {GATE: bool(case["input"].get("featureGate", True))}
        report = lint_target(path, gates=gates, is_read_by_kubelet=True)
        # Of a file that it takes for another kind, lint says what that kind lacks.
        has_text = bool(report.kubernetes_text) or report.kind != "providers"
        if report.accepted != case["want"]["ok"] or report.accepted == has_text:
            wrong.append(case["name"])
    assert cases
    assert wrong == []


Place = tuple[object, ...]


def _raised(path: str, bin_dir: Path, *, gate: bool = True) -> tuple[list[Place], str]:
    try:
        load_providers(path, bin_dir, service_account_tokens=gate)
    except ConfigError as error:
        return [_place(problem) for problem in error.problems], error.kubernetes_text
    return [], ""


def _place(found: object) -> Place:
    place: Place = attrgetter("code", "file", "line", "column", "path", "message", "kubernetes_text")(found)
    return place


def _errors(report: Report) -> tuple[list[Place], str]:
    errors = [_place(finding) for finding in report.findings if finding.severity == "error"]
    return errors, report.kubernetes_text


def test_the_library_raises_the_errors_of_lint(tmp_path: Path) -> None:
    """One set of rules: all of them, in the same order, with the same words, for every recorded config."""
    bin_dir = tmp_path / "bin"
    lay_out_programs(bin_dir, {"one": 0o755, "plain": 0o644, "folder/": 0o755})
    refused = 0
    for number, case in enumerate(json.loads(PROVIDERS.read_text("utf-8"))["cases"]):
        (tmp_path / str(number)).mkdir()
        path = _lay_out(case["input"], tmp_path / str(number))
        gate = bool(case["input"].get("featureGate", True))
        for folder in (bin_dir, tmp_path / "missing"):
            raised = _raised(path, folder, gate=gate)
            report = lint_target(path, bin_dir=str(folder), gates={GATE: gate}, is_read_by_kubelet=True)
            if report.kind == "providers":
                assert raised == _errors(report), case["name"]
            else:
                assert raised[0]
                assert not report.accepted
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
    assert text == lint_target(str(folder)).kubernetes_text
    problems, text = _raised(str(folder), tmp_path / "no-bin")
    assert sorted(str(problem[0]) for problem in problems) == ["KF103", "KF107", "KF126", "KF140"]
    assert text == f"plugin binary directory {tmp_path}/no-bin did not exist"
