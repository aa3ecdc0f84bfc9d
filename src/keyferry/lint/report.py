"""The results of lint as values: one finding, and the report on one target."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from keyferry._core.severity import Severity
from keyferry._core.values import Value, field
from keyferry.errors import Detail, Problem
from keyferry.lint.codes.catalogue import CODES
from keyferry.lint.source import SourceFile
from keyferry.lint.versions import LATEST

__all__ = ["FileKind", "Finding", "LintReport", "finding_of", "make_report", "place_of"]

_UNREADABLE = "KF101"


class FileKind(StrEnum):
    """The kind of a linted file, with its name in a summary."""

    PROVIDERS = "providers"
    KUBECONFIG = "kubeconfig"
    KUBERC = "kuberc"
    FEDERATION = "federation config"
    PULL_RECORD = "pull record"
    PULL_RECORDS_FOLDER = "folder of pull records"
    AGENT_CONFIG = "agent config"
    KUBELET_CONFIG = "kubelet config"


class Finding(Value):
    """One problem of a config; ``kubernetes_text`` is empty if Kubernetes reports no error.

    ``versions`` are the Kubernetes versions that have the problem, if others that were asked for do not.
    """

    code: str
    severity: Severity
    message: str
    path: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None
    kubernetes: str = ""
    kubernetes_text: str = field(default="", repr=False)
    versions: tuple[str, ...] = ()
    detail: Detail = Detail.NONE


class LintReport(Value):
    """The problems of one config; ``kubernetes_text`` is the error with which the kubelet exits, if it does.

    ``suppressed`` are the findings that comments in the files suppress, ``sources`` the files, if they may be shown.
    """

    path: str
    kubernetes: str
    bin_dir: str | None = None
    files: tuple[str, ...] = ()
    providers: int = 0
    findings: tuple[Finding, ...] = ()
    kubernetes_text: str = field(default="", repr=False)
    kind: FileKind = FileKind.PROVIDERS
    suppressed: tuple[Finding, ...] = ()
    sources: tuple[SourceFile, ...] = field(default=(), repr=False)

    @property
    def accepted(self) -> bool:
        """Whether Kubernetes accepts this config."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    @property
    def unreadable(self) -> bool:
        """Whether a file is missing or cannot be read."""
        return any(finding.code == _UNREADABLE for finding in self.findings)


def make_report(kind: FileKind, path: str, problems: Iterable[Problem], kubernetes_text: str) -> LintReport:
    """Return a report of *problems*, each once and in the order of the file; the text is kept for a refusal only."""
    findings: dict[Finding, None] = {finding_of(problem): None for problem in problems}
    ordered = tuple(sorted(findings, key=place_of))
    refused = any(finding.severity is Severity.ERROR for finding in ordered)
    text = kubernetes_text if refused else ""
    return LintReport(
        path=path, kubernetes=LATEST, files=(path,), findings=ordered, kubernetes_text=text, kind=kind
    )


def finding_of(problem: Problem) -> Finding:
    """Return the finding for a problem, with the severity of its code."""
    code = CODES[problem.code]
    return Finding(
        code=problem.code,
        severity=code.severity,
        message=problem.message,
        path=problem.path,
        file=problem.file,
        line=problem.line,
        column=problem.column,
        kubernetes=code.kubernetes,
        kubernetes_text=problem.kubernetes_text if code.severity is Severity.ERROR else "",
        detail=problem.detail,
    )


def place_of(finding: Finding) -> tuple[str, int, int, str]:
    """Return the sort key of a finding: file, line, column, code."""
    return finding.file, finding.line or 0, finding.column or 0, finding.code
