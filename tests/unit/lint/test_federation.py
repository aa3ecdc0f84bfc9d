"""Everything for which the plugin refuses a FederationConfig is an error of lint, with a code and a place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyferry.api.federation.presets import PRESETS
from keyferry.errors import ProvideError
from keyferry.lint.kinds.federation import decode_federation
from keyferry.lint.report import FileKind, LintReport
from keyferry.lint.run import lint_any
from keyferry_plugins.federation.config import read_federation
from support.federation import rule_of
from support.lint import codes, write

HEAD = "apiVersion: keyferry.dev/v1alpha1\nkind: FederationConfig\n"
SUBJECT = "  subject: {audience: registry.example.com, issuer: https://kubernetes.example.com}\n"
RULE = "rules:\n- registries: [registry.example.com]\n" + SUBJECT
PASSING = HEAD + RULE + "  preset: passthrough\n"


def lint(folder: Path, text: str) -> LintReport:
    return lint_any(write(folder, text, "federation.yaml"))


def test_a_good_config_has_no_findings(tmp_path: Path) -> None:
    report = lint(tmp_path, PASSING)
    assert (report.findings, report.accepted, report.kind) == ((), True, FileKind.FEDERATION)


REFUSED = {
    "not YAML": (HEAD + "rules: [\n", [("KF601", "", 4)]),
    "another version": (PASSING.replace("v1alpha1", "v9"), [("KF602", "apiVersion", 1)]),
    "unknown field": (PASSING + "  host: x\n", [("KF603", "rules[0].host", 7)]),
    "misspelt preset": (HEAD + RULE + "  prest: quay\n", [("KF603", "rules[0].prest", 6)]),
    "twice": (PASSING + "  preset: passthrough\n", [("KF604", "rules[0].preset", 7)]),
    "a number": (PASSING.replace("passthrough", "8693"), [("KF605", "rules[0].preset", 6)]),
    "rules are an object": (HEAD + "rules: {}\n", [("KF605", "rules", 3)]),
    "not a duration": (PASSING + "  lifetime: {max: 1d}\n", [("KF605", "rules[0].lifetime.max", 7)]),
    "no rules": (HEAD + "rules: []\n", [("KF606", "rules", 3)]),
    "no rules at all": (HEAD, [("KF606", "rules", 1)]),
    "a pattern": (
        PASSING.replace("[registry.example.com]", "['*.example.com']"),
        [("KF607", "rules[0].registries[0]", 4)],
    ),
    "no registry": (PASSING.replace("[registry.example.com]", "[]"), [("KF607", "rules[0].registries", 4)]),
    "no preset": (HEAD + RULE, [("KF608", "rules[0]", 4)]),
    "unknown preset": (PASSING.replace("passthrough", "harbor"), [("KF608", "rules[0].preset", 6)]),
    "no issuer": (
        PASSING.replace(", issuer: https://kubernetes.example.com", ""),
        [("KF609", "rules[0].subject.issuer", 5)],
    ),
    "the API server's": (
        PASSING.replace("audience: registry.example.com", "audience: https://kubernetes.default.svc"),
        [("KF610", "rules[0].subject.audience", 5)],
    ),
    "no parameter": (PASSING.replace("passthrough", "quay"), [("KF611", "rules[0].params", 4)]),
    "a secret": (
        HEAD + RULE + "  preset: rfc8693\n  params: {host: dex.example.com, client_secret: hunter2}\n",
        [("KF611", "rules[0].params.client_secret", 7)],
    ),
    "http": (
        HEAD + RULE + "  calls: [{url: 'http://sts.example.com/x', out: {token: /t}}]\n"
        "  credentials: {username: u, password: '${token}'}\n",
        [("KF612", "rules[0].calls[0].url", 6)],
    ),
    "Global": (PASSING + "  cacheKeyType: Global\n", [("KF613", "rules[0].cacheKeyType", 7)]),
    "relative": (
        PASSING + "  caFile: ca.pem\n",
        [("KF613", "rules[0].caFile", 7), ("KF655", "rules[0].caFile", 7)],
    ),
}


@pytest.mark.parametrize(("text", "findings"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_an_error_at_its_place(
    tmp_path: Path, text: str, findings: list[tuple[str, str, int]]
) -> None:
    path = write(tmp_path, text, "federation.yaml")
    file = decode_federation(path, text.encode())
    assert file.problems
    report = lint_any(path)
    assert not report.accepted
    assert [(each.code, each.path, each.line) for each in report.findings] == findings
    assert all(finding.kubernetes_text == "" for finding in report.findings)


@pytest.mark.parametrize("text", [text for text, _ in REFUSED.values()], ids=list(REFUSED))
def test_the_plugin_refuses_the_same(text: str) -> None:
    """As JSON, which is all that the plugin reads; what JSON cannot say is left out."""
    file = decode_federation("x", text.encode())
    if file.document is None or "KF604" in {problem.code for problem in file.problems}:
        return
    with pytest.raises(ProvideError):
        read_federation(json.dumps(file.document.value).encode(), "x")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_clean(tmp_path: Path, preset: str) -> None:
    document = {"apiVersion": "keyferry.dev/v1alpha1", "kind": "FederationConfig", "rules": [rule_of(preset)]}
    report = lint(tmp_path, json.dumps(document, indent=1))
    assert codes(report) == []


def test_a_secret_is_not_shown_in_a_finding(tmp_path: Path) -> None:
    report = lint(tmp_path, REFUSED["a secret"][0])
    assert "hunter2" not in repr(report.findings)
