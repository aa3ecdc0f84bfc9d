"""Lint one target as a whole: by the rules of each Kubernetes version, with the comments of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from keyferry._core.severity import Severity
from keyferry._core.values import replace
from keyferry.lint.codes.catalogue import ON_THIS_MACHINE
from keyferry.lint.dispatch import lint_any, read_once
from keyferry.lint.federation.decode import FederationFile
from keyferry.lint.ignores import apply_ignores
from keyferry.lint.report import FileKind, Finding, LintReport, place_of
from keyferry.lint.versions import LATEST

__all__ = ["lint_target"]

# The files whose problems depend on the version.
_VERSIONED = (FileKind.PROVIDERS, FileKind.KUBELET_CONFIG)
_NO_GATES: Mapping[str, bool] = MappingProxyType({})


def lint_target(
    path: str,
    *,
    data: bytes | None = None,
    bin_dir: str | None = None,
    versions: Sequence[str] = (LATEST,),
    gates: Mapping[str, bool] = _NO_GATES,
    elsewhere: bool = False,
    beside: tuple[FederationFile, ...] = (),
    is_read_by_kubelet: bool = False,
) -> LintReport:
    """Return the problems of *path* in any of *versions*, without those that its comments suppress.

    *data* is the content of the file, if it is not to be read. With *elsewhere*, problems that depend on this machine
    are left out: files that are absent here, plugins, permissions. *beside* are the federation configs given too.
    *is_read_by_kubelet* is that of ``lint_any``.
    """
    data = read_once(path) if data is None else data

    def lint_for(version: str) -> LintReport:
        return lint_any(
            path,
            data=data,
            bin_dir=bin_dir,
            kubernetes=version,
            gates=gates,
            beside=beside,
            is_read_by_kubelet=is_read_by_kubelet,
        )

    report = lint_for(versions[0])
    if report.kind in _VERSIONED and len(versions) > 1:
        report = _merge((report, *map(lint_for, versions[1:])))
    report = apply_ignores(report)
    return _without_machine(report) if elsewhere else report


def _merge(reports: Sequence[LintReport]) -> LintReport:
    """Return one report with each finding once; one that not all versions have names its versions."""
    versions: dict[Finding, list[str]] = {}
    for report in reports:
        for finding in report.findings:
            versions.setdefault(finding, []).append(report.kubernetes)
    findings = [
        finding if len(found) == len(reports) else replace(finding, versions=tuple(found))
        for finding, found in versions.items()
    ]
    return replace(
        reports[0],
        kubernetes=",".join(report.kubernetes for report in reports),
        findings=tuple(sorted(findings, key=place_of)),
        kubernetes_text=next((report.kubernetes_text for report in reports if report.kubernetes_text), ""),
    )


def _without_machine(report: LintReport) -> LintReport:
    findings = tuple(each for each in report.findings if each.code not in ON_THIS_MACHINE)
    is_refused = any(each.severity is Severity.ERROR for each in findings)
    return replace(report, findings=findings, kubernetes_text=report.kubernetes_text if is_refused else "")
