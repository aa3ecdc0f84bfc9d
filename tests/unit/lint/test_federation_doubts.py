"""What a FederationConfig may say and hardly means is a warning or an info, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.lint.kinds.federation import decode_federation, find_doubts
from keyferry.lint.report import LintReport
from keyferry.lint.run import lint_any
from support.lint import codes, write

HEAD = "apiVersion: keyferry.dev/v1alpha1\nkind: FederationConfig\nrules:\n"
RULE = """\
- registries: [{registry}]
  subject: {{audience: {audience}, issuer: '{issuer}'}}
"""
RECIPE = """\
  calls:
  - url: https://sts.example.com/x
    {more}
    out: {{token: /token}}
  credentials: {{username: u, password: '{password}'}}
"""


def rule(
    body: str = "  preset: passthrough\n",
    *,
    registry: str = "registry.example.com",
    audience: str = "registry.example.com",
    issuer: str = "https://kubernetes.example.com",
) -> str:
    return RULE.format(registry=registry, audience=audience, issuer=issuer) + body


def recipe(more: str, password: str = "${token}") -> str:
    return rule(RECIPE.format(more=more, password=password))


def lint(folder: Path, text: str, mode: int = 0o644) -> LintReport:
    path = write(folder, HEAD + text, "federation.yaml")
    Path(path).chmod(mode)
    return lint_any(path)


ROBOT = "  preset: quay\n  params: {robot: {annotation: quay.io/robot, pattern: '%s'}}\n"
DOUBTS = {
    "a token as a parameter": (
        rule("  preset: quay\n  params: {robot: ghp_0123456789abcdefghijABCD}\n"),
        "KF650",
    ),
    "a bearer token": (recipe("bearer: s3cr3t-bearer"), "KF650"),
    "a field": (recipe("fields: {client_secret: hunter2-hunter2, t: '${subject}'}"), "KF650"),
    "a password": (recipe("fields: {t: '${subject}'}", password="hunter2"), "KF650"),
    "an issuer by http": (rule(issuer="http://kubernetes.example.com"), "KF651"),
    "a legacy issuer": (rule(issuer="kubernetes/serviceaccount"), "KF651"),
    "a registry's address": (rule(registry="10.0.0.1:5000"), "KF652"),
    "a host's address": (rule("  preset: quay\n  params: {host: 10.0.0.1, robot: a+b}\n"), "KF652"),
    "a pattern for all": (rule(ROBOT % ".+"), "KF653"),
    "another one": (rule(ROBOT % "(?s).*"), "KF653"),
    "nearly the issuer": (rule(audience="https://Kubernetes.example.com"), "KF654"),
    "no authority": (rule("  preset: passthrough\n  caFile: /nope/ca.pem\n"), "KF655"),
    "two audiences": (rule() + rule(registry="other.example.com", audience="other"), "KF657"),
    "two documents": (rule() + "---\nkind: Other\n", "KF658"),
}


@pytest.mark.parametrize(("text", "code"), DOUBTS.values(), ids=DOUBTS)
def test_a_doubt_has_one_code(tmp_path: Path, text: str, code: str) -> None:
    report = lint(tmp_path, text)
    assert codes(report) == [code]
    assert report.accepted
    assert report.findings[0].line is not None


@pytest.mark.parametrize("pattern", ["team\\+[a-z]+", "[a-z0-9+]{1,40}", "a|b"])
def test_a_pattern_that_allows_some_is_no_finding(tmp_path: Path, pattern: str) -> None:
    assert codes(lint(tmp_path, rule(ROBOT % pattern))) == []


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write(tmp_path: Path, mode: int) -> None:
    """The plugin refuses it, and it is left out for another machine."""
    report = lint(tmp_path, rule(), mode)
    assert codes(report) == ["KF656"]


def test_standard_input_has_no_owner() -> None:
    """A config that is not in a file has no permissions to look at."""
    file = decode_federation("/dev/stdin", (HEAD + rule()).encode())
    assert list(find_doubts(file)) == []
