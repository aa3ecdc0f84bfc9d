"""Lint a FederationConfig: report why the plugin refuses it, and what is accepted but probably not intended."""

from __future__ import annotations

from keyferry._core.values import replace
from keyferry.lint.federation.decode import decode_federation
from keyferry.lint.federation.doubts import find_doubts
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.source import SourceFile

__all__ = ["lint_federation"]


def lint_federation(path: str, data: bytes) -> LintReport:
    """Return all problems of the FederationConfig *path*, whose content is *data*."""
    file = decode_federation(path, data)
    report = make_report(FileKind.FEDERATION, path, [*file.problems, *find_doubts(file)], "")
    # Kubernetes does not read this file.
    findings = tuple(replace(finding, kubernetes_text="") for finding in report.findings)
    return replace(report, findings=findings, sources=(SourceFile(path=path, data=data),))
