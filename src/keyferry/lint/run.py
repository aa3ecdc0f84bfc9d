"""Lint files: each is read and parsed once, recognised, checked by the rules of its kind, and its comments applied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from keyferry._core.severity import SEVERITIES, Severity
from keyferry._core.values import Value, replace
from keyferry.images.config.read import read_config
from keyferry.lint.code import Finding, find_code, in_order
from keyferry.lint.ignores import apply_ignores
from keyferry.lint.recognise import FEDERATION, PROVIDERS, add_nested, find_nested, recognise
from keyferry.lint.report import FileKind, LintReport
from keyferry.lint.source import SourceFile, read_source
from keyferry.lint.versions import LATEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.lint.fixes import FixedFile
    from keyferry.lint.kinds.federation import FederationFile

# The files whose problems depend on the version.
_VERSIONED = (FileKind.PROVIDERS, FileKind.KUBELET_CONFIG)
_NO_GATES: Mapping[str, bool] = MappingProxyType({})


class LintRequest(Value):
    """What to lint, and how.

    *targets* are files and directories, each with the directory of its plugins if these are checked too. *gates* are
    feature gates of the kubelet that differ from its defaults. With *elsewhere*, problems that depend on this machine
    are left out: files that are absent here, plugins, permissions. *is_read_by_kubelet* tells that the target is a
    node's provider config, so that a document with such a config inside is refused. Findings below the severity
    *least* are not shown. *select* and *ignore* are codes or beginnings of codes, such as KF1: with *select* only these
    are shown, and those of *ignore* are not. With *corrects*, the corrections are made, in memory.
    """

    targets: tuple[tuple[str, str | None], ...]
    versions: tuple[str, ...] = (LATEST,)
    gates: Mapping[str, bool] = _NO_GATES
    elsewhere: bool = False
    is_read_by_kubelet: bool = False
    least: Severity = SEVERITIES[-1]
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    corrects: bool = False

    def shows(self, finding: Finding) -> bool:
        """Return whether a finding is severe enough, and its code is selected and not ignored."""
        if SEVERITIES.index(finding.severity) > SEVERITIES.index(self.least):
            return False
        return finding.code.startswith(self.select or "") and not finding.code.startswith(self.ignore)


class LintResult(Value):
    """The reports on all targets, the findings that are shown, how many of each report can be fixed, and the fixes."""

    reports: tuple[LintReport, ...]
    shown: tuple[Finding, ...]
    fixable: tuple[int, ...]
    fixed: tuple[FixedFile, ...] = ()


def lint_files(request: LintRequest) -> LintResult:
    """Lint all targets; provider and federation configs that are given together are compared with each other.

    Raise EnvironmentProblem for a file that is too large.
    """
    sources = [read_source(path) for path, _ in request.targets]
    beside = tuple(find_federations(filter(None, sources)))
    reports = tuple(
        _lint_target(path, source, bin_dir, request, beside)
        for (path, bin_dir), source in zip(request.targets, sources, strict=True)
    )
    shown = tuple(each for report in reports for each in report.findings if request.shows(each))
    if not shown:
        return LintResult(reports=reports, shown=(), fixable=(0,) * len(reports))
    from keyferry.lint.fixes import count_fixable

    fixable = tuple(
        sum(count_fixable(source, filter(request.shows, report.findings)) for source in report.sources)
        for report in reports
    )
    corrected = reports if request.corrects else ()
    fixed = tuple(each for report in corrected for each in _fix(report, request, beside))
    return LintResult(reports=reports, shown=shown, fixable=fixable, fixed=fixed)


def _fix(report: LintReport, request: LintRequest, beside: tuple[FederationFile, ...]) -> Iterator[FixedFile]:
    """Yield the files of a target that can be corrected, each corrected by itself."""
    from keyferry.lint.fixes import fix_file

    def lint_again(source: SourceFile) -> LintReport:
        return _lint_target(source.path, source, report.bin_dir, request, beside)

    for source in report.sources:
        fixed = fix_file(source, lint_again, request.shows)
        if fixed.is_changed:
            yield fixed


def _lint_target(
    path: str,
    source: SourceFile | None,
    bin_dir: str | None,
    request: LintRequest,
    beside: tuple[FederationFile, ...],
) -> LintReport:
    """Return the problems of *path* in any of the versions, without those that its comments suppress."""

    def lint_for(version: str) -> LintReport:
        return lint_any(
            path,
            source=source,
            bin_dir=bin_dir,
            kubernetes=version,
            gates=request.gates,
            beside=beside,
            is_read_by_kubelet=request.is_read_by_kubelet,
        )

    first, *others = request.versions
    report = lint_for(first)
    if others and report.kind in _VERSIONED:
        report = _merge((report, *map(lint_for, others)))
    report = apply_ignores(report)
    return _without_machine(report) if request.elsewhere else report


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
        findings=in_order(findings),
        kubernetes_text=next((report.kubernetes_text for report in reports if report.kubernetes_text), ""),
    )


def _without_machine(report: LintReport) -> LintReport:
    findings = tuple(each for each in report.findings if not find_code(each.code).on_this_machine)
    report = replace(report, findings=findings)
    return replace(report, kubernetes_text="") if report.accepted else report


def lint_any(
    path: str,
    *,
    source: SourceFile | None = None,
    bin_dir: str | None = None,
    kubernetes: str = LATEST,
    gates: Mapping[str, bool] = _NO_GATES,
    beside: tuple[FederationFile, ...] = (),
    is_read_by_kubelet: bool = False,
) -> LintReport:
    """Lint *path* by its kind, for one version, without its comments.

    A file that cannot be recognised or read is linted as a provider config. *source* is the file, if it was read
    already. *beside* are the federation configs that were given too. The others are as in ``LintRequest``.
    """
    if source is None:
        source = read_source(path)
    if source is None and os.path.isdir(path):
        from keyferry.lint.kinds.records import is_records_folder, lint_records

        if is_records_folder(path):
            return lint_records(path)
    kind = _kind_of(source) if source else FileKind.PROVIDERS
    # A kubelet refuses its own config in the place of a provider config.
    if kind is FileKind.KUBELET_CONFIG and source and not is_read_by_kubelet:
        from keyferry.lint.kinds.kubelet_config import lint_kubelet_config

        return lint_kubelet_config(source, kubernetes, gates)
    lint_other = _find_linter(kind)
    if source and lint_other:
        return lint_other(source)
    from keyferry.lint.kinds.providers import lint

    def lint_providers(data: bytes | None) -> LintReport:
        return lint(
            path,
            data=data,
            bin_dir=bin_dir,
            kubernetes=kubernetes,
            gates=gates,
            beside=beside,
            read_data=source.read if source else None,
        )

    if source is None:
        return lint_providers(None)
    linters = {PROVIDERS: lint_providers, FEDERATION: lambda data: _lint_inner_federation(path, data)}
    return add_nested(lint_providers(source.data), source, linters, is_read_by_kubelet=is_read_by_kubelet)


def _find_linter(kind: FileKind) -> Callable[[SourceFile], LintReport] | None:  # noqa: PLR0911 - one for each kind
    """Return the linter of a kind whose files are linted alone; each loads only what it needs."""
    if kind is FileKind.AGENT_CONFIG:
        from keyferry.lint.kinds.agent_config import lint_agent_config

        return lint_agent_config
    if kind is FileKind.FEDERATION:
        from keyferry.lint.kinds.federation import lint_federation

        return lint_federation
    if kind is FileKind.KUBECONFIG:
        from keyferry.lint.kinds.kubeconfig import lint_kubeconfig

        return lint_kubeconfig
    if kind is FileKind.KUBERC:
        from keyferry.lint.kinds.kuberc import lint_kuberc

        return lint_kuberc
    if kind is FileKind.PROFILE_PROVIDERS:
        from keyferry.lint.kinds.profile_providers import lint_profile_providers

        return lint_profile_providers
    if kind is FileKind.PULL_RECORD:
        from keyferry.lint.kinds.records import lint_record_file

        return lint_record_file
    return None


def _kind_of(source: SourceFile) -> FileKind:
    return recognise(source.data, os.path.basename(source.path), source.read)


def _lint_inner_federation(path: str, data: bytes) -> LintReport:
    """Lint a FederationConfig inside *path*; what is found of the file itself is not about the config."""
    from keyferry.lint.kinds.federation import lint_federation

    report = lint_federation(SourceFile.parse(path, data))
    return replace(report, findings=tuple(each for each in report.findings if each.line is not None))


def find_federations(sources: Iterable[SourceFile]) -> Iterator[FederationFile]:
    """Yield the federation configs among *sources* and inside them."""
    for source in sources:
        if FEDERATION.encode() not in source.data:
            continue
        from keyferry.lint.kinds.federation import decode_federation

        kind = _kind_of(source)
        if kind is FileKind.FEDERATION:
            yield decode_federation(source.path, source.data, source.read)
        elif kind is FileKind.PROVIDERS:
            inside = (each for each in find_nested(source) if each.kind == FEDERATION)
            yield from (decode_federation(each.name, each.data) for each in inside)


def find_audiences(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the audiences for which kubelets request tokens by the provider and federation configs in *paths*."""
    found: dict[str, None] = {}
    for path in paths:
        source = read_source(path)
        kind = _kind_of(source) if source else FileKind.PROVIDERS
        if source is not None and kind is FileKind.FEDERATION:
            found |= dict.fromkeys(_federation_audiences(path, source.data))
        elif kind is FileKind.PROVIDERS:
            found |= dict.fromkeys(_provider_audiences(path, source.data if source else None))
            for nested in find_nested(source) if source else ():
                tell = _provider_audiences if nested.kind == PROVIDERS else _federation_audiences
                found |= dict.fromkeys(tell(path, nested.data))
    return tuple(filter(None, found))


def _provider_audiences(path: str, data: bytes | None) -> Iterator[str]:
    for provider in read_config(path, data).providers:
        if provider.token_attributes is not None:
            yield provider.token_attributes.service_account_token_audience


def _federation_audiences(path: str, data: bytes) -> Iterator[str]:
    from keyferry.lint.kinds.federation import decode_federation, kubelet_audiences

    yield from kubelet_audiences(decode_federation(path, data).config)
