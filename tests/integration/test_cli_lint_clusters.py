"""``keyferry lint`` on kubeconfigs and kuberc files as people run it: real processes, real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyferry.cli.main import main
from keyferry.lint.catalogue import CODES
from keyferry.lint.run import lint_any
from support.parts import BEYOND_CI
from support.public_configs import find_public_configs, verdicts
from support.schemas import check_output

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = find_public_configs()
RECORDED = ROOT / "tests" / "conformance" / "vectors" / "kubeconfig.json"
SECRET = "hunter2-hunter2"
Json = dict[str, Any]

GOOD = """\
apiVersion: v1
kind: Config
current-context: c
clusters:
- name: k
  cluster:
    server: https://k:6443
contexts:
- name: c
  context:
    cluster: k
    user: u
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: /bin/sh
      interactiveMode: Never
"""
WRONG = GOOD.replace("Never", "Maybe").replace("server:", "Server: https://k\n    server:")
KUBERC = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n"


def _run(*words: str, cwd: Path | None = None, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KEYFERRY_")}
    command = [sys.executable, "-m", "keyferry", "lint", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env=environ, input=stdin
    )
    check_output(done.stdout)
    return done


def _write(folder: Path, text: str, name: str = "config") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_good_files_give_no_output_and_status_0(tmp_path: Path) -> None:
    done = _run(_write(tmp_path, GOOD), _write(tmp_path, KUBERC, "kuberc"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "keyferry: no problems found in 1 kubeconfig, 1 kuberc\n"


def test_each_finding_is_one_line_with_its_place(tmp_path: Path) -> None:
    _write(tmp_path, WRONG)
    done = _run("config", "-o", "table", cwd=tmp_path)
    assert done.returncode == 1
    first, second = done.stdout.splitlines()
    assert first.startswith("config:7:5   warning  KF250  clusters[0].cluster.Server: unknown field: ")
    assert first.endswith("did you mean 'server'?")
    assert second.startswith("config:20:7  error    KF225  users[0].user.exec.interactiveMode: ")
    assert done.stderr == "keyferry: 1 error, 1 warning in 1 file\n"


def test_the_severity_limits_what_is_reported(tmp_path: Path) -> None:
    path = _write(tmp_path, GOOD.replace("https", "http"))
    assert _run(path).returncode == 1
    done = _run(path, "--severity", "error")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "keyferry: no such problems found in 1 kubeconfig (1 warning not shown)\n"


def test_json_says_what_a_file_is(tmp_path: Path) -> None:
    path = _write(tmp_path, WRONG)
    report = json.loads(_run(path, "-o", "json").stdout)
    (target,) = report["targets"]
    assert target["kubernetesText"].startswith("invalid configuration: invalid interactiveMode for u")
    assert {name: target[name] for name in ("path", "kind", "files", "accepted")} == {
        "path": path,
        "kind": "kubeconfig",
        "files": [path],
        "accepted": False,
    }
    assert "providers" not in target
    warning, error = report["findings"]
    assert set(error) == {"code", "severity", "file", "line", "column", "path", "message", "kubernetesText"}
    assert set(warning) == set(error) - {"kubernetesText"}


def test_sarif_knows_every_code(tmp_path: Path) -> None:
    log = json.loads(_run(_write(tmp_path, WRONG), "-o", "sarif").stdout)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CODES)
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == ["KF250", "KF225"]


def test_codes_of_kubeconfigs_are_listed() -> None:
    done = _run("--list", "KF225", "kf312")
    assert [line[:5] for line in done.stdout.splitlines() if line.startswith("KF")] == ["KF225", "KF312"]


def test_a_kubeconfig_may_come_through_a_pipe() -> None:
    done = _run("/dev/stdin", stdin=GOOD)
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 kubeconfig" in done.stderr


def test_files_of_all_kinds_at_once(tmp_path: Path) -> None:
    done = _run(
        _write(tmp_path, GOOD), _write(tmp_path, "kind: CredentialProviderConfig\n", "providers"), "nope"
    )
    assert done.returncode == 3
    assert "KF104" in done.stdout
    assert "KF101" in done.stdout


@pytest.mark.parametrize("output", ["text", "table", "json", "sarif", "junit", "github", "diff"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"users: [{{name: u, user: {{token: {SECRET}}}}}]\n", id="token"),
        pytest.param(f"users: [{{name: u, user: {{token: [{SECRET}]}}}}]\n", id="wrong type"),
        pytest.param(f"users: [{{name: u, user: {{token: {SECRET}, password: {SECRET}}}}}]\n", id="both"),
        pytest.param(f"users: [{{name: u, user: {{client-key-data: {SECRET}}}}}]\n", id="no base64"),
        pytest.param(f"users: [{{name: u, user: {SECRET}}}]\n", id="no mapping"),
        pytest.param(f"users:\n- {SECRET}\n", id="no entry"),
        pytest.param(f"users: [{{name: u, user: {{token: {SECRET}", id="cut short"),
        pytest.param(f"kind: Config\nusers:\n\t- {SECRET}\n", id="tab"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: '{SECRET}}}}}]\n", id="quote"),
        pytest.param(f"apiVersion: v1/\nkind: Config\ntoken: {SECRET}\n", id="whole file"),
        pytest.param(f"users: [{{name: u}}, {{name: u, user: {{token: {SECRET}}}}}]\n", id="twice"),
        pytest.param(GOOD.replace("server:", f"proxy-url: http://u:{SECRET}@p\n    server:"), id="proxy"),
        pytest.param(GOOD.replace("server:", f"proxy-url: u:{SECRET}@p\n    server:"), id="bad proxy"),
        pytest.param(GOOD.replace("server:", f"proxy-url: http://u:{SECRET}/@p\n    server:"), id="slash"),
        pytest.param(GOOD.replace("https://k", f"https://u:{SECRET}@k"), id="server"),
        pytest.param(GOOD.replace("https://k", f"u:{SECRET}@k"), id="server without scheme"),
        pytest.param(GOOD.replace("Never", f"Never\n      args: [--token, {SECRET}]"), id="argument"),
        pytest.param(GOOD.replace("Never", f"Never\n      env: [{{name: T, value: {SECRET}}}]"), id="env"),
        pytest.param(
            GOOD.replace("Never", f"Never\n      env: [{{name: API_TOKEN, value: {SECRET}}}]"), id="env secret"
        ),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: *{SECRET}}}}}]\n", id="alias"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !{SECRET} x}}}}]\n", id="tag"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !!{SECRET} x}}}}]\n", id="tag of YAML"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !{SECRET}!x y}}}}]\n", id="handle"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: %{SECRET}}}}}]\n", id="directive"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: @{SECRET}}}}}]\n", id="reserved"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !!int {SECRET}}}}}]\n", id="no number"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{~: {SECRET}}}}}]\n", id="null key"),
        pytest.param(f"kind: Config\n~: [{{name: u, user: {{token: {SECRET}}}}}]\n", id="null key above"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !!binary {SECRET}}}}}]\n", id="no binary"),
    ],
)  # fmt: skip
def test_no_secret_is_ever_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, output: str
) -> None:
    assert main(["lint", _write(tmp_path, text), "-o", output]) in (0, 1)
    shown = capsys.readouterr()
    check_output(shown.out)
    assert SECRET not in shown.out + shown.err


def test_strange_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "a\n\033[2J.yaml"
    path = _write(tmp_path, GOOD + '"x\\ny\\e[2J": 1\n', name)
    assert "\033" not in _run(path).stdout
    done = _run(path, "-o", "table")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert "\033" not in done.stdout


# Kubernetes' own verdicts

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
        report = lint_any(str(path))
        texts = [finding.kubernetes_text for finding in report.findings if finding.severity == "error"]
        if report.accepted != (not _refusals(verdict)):
            wrong[entry["file"]] = f"accepted: {report.accepted}"
        elif verdict["validation_errors"] is not None and sorted(texts) != sorted(
            verdict["validation_errors"]
        ):
            wrong[entry["file"]] = f"errors: {texts}"
        elif not report.accepted and _shape(report.kubernetes_text) != _shape(verdict["client_config_error"]):
            wrong[entry["file"]] = report.kubernetes_text
        elif (_run(str(path), "--severity", "error").returncode == 0) != (not _refusals(verdict)):
            wrong[entry["file"]] = "exit status"
    assert wrong == {}


def _shape(text: str) -> str:
    """A text without the file's name, and without where in a value its decoder stopped."""
    stage, colon, rest = text.partition('": ')
    if stage.startswith("error loading config file"):
        text = "error loading config file" + colon + rest
    return text.partition(" at input byte")[0]


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
        report = lint_any(str(tmp_path / "config"))
        if report.accepted == bool(refused):
            wrong[case["name"]] = [refused, [finding.code for finding in report.findings]]
    assert wrong == {}
