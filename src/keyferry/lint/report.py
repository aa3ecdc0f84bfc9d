"""What was found in a kubeconfig or kuberc, in the shape of a provider config's report."""

from collections.abc import Iterable

from keyferry._values import field
from keyferry.errors import Problem
from keyferry.lint.provider_config import Finding, LintReport, _finding, _order
from keyferry.lint.versions import LATEST

__all__ = ["FileReport", "make_report"]


class FileReport(LintReport):
    """A report on one file that is no provider config; ``kind`` is ``kubeconfig`` or ``kuberc``."""

    # All fields once more: a value has only those of its own class.
    path: str
    kubernetes: str
    bin_dir: str | None = None
    files: tuple[str, ...] = ()
    providers: int = 0
    findings: tuple[Finding, ...] = ()
    kubernetes_text: str = field(default="", repr=False)
    kind: str = ""


def make_report(kind: str, path: str, problems: Iterable[Problem], kubernetes_text: str) -> FileReport:
    """A report of *problems*, each once and in the order of the file; the text is that of a refusal."""
    findings: dict[Finding, None] = {_finding(problem): None for problem in problems}
    ordered = tuple(sorted(findings, key=_order))
    refused = any(finding.severity == "error" for finding in ordered)
    text = kubernetes_text if refused else ""
    return FileReport(path, LATEST, files=(path,), findings=ordered, kubernetes_text=text, kind=kind)
