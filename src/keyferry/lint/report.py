"""The report on one target, and its forms: text, a table, JSON, SARIF, JUnit and annotations for GitHub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from keyferry._core.secrets import printable
from keyferry._core.severity import Severity, is_failure
from keyferry._core.values import Value, field, replace
from keyferry.lint.code import Code, Finding, find_code, in_order
from keyferry.lint.secrets import VisibleLine, marked_length, visible_source
from keyferry.lint.source import SourceFile
from keyferry.lint.versions import LATEST
from keyferry.show.documents import as_json, make_document
from keyferry.show.text import fold, source_frame
from keyferry.show.writer import style

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.show.reports import Case

Json = dict[str, object]

_UNREADABLE = "KF101"
_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_WIDEST = max(map(len, Severity))
# Parts of Kubernetes' messages that quote a value, which may be a secret, and their replacements.
_QUOTED = (
    # The whole file, if its kind is missing.
    (re.compile(r"(Object '\w+' is missing in ').*'", re.DOTALL), r"\1...'"),
    # An unquoted value that begins with '*', which YAML reads as an undefined alias.
    (re.compile(r"(anchor ')[^']*'"), r"\1***'"),
    # A value that does not have the type of its tag.
    (re.compile(r"(cannot decode !!\w+ `).*(` as a )", re.DOTALL), r"\1***\2"),
    # The value of a key that JSON cannot represent.
    (re.compile(r"(unsupported map key of type: .*, value: ).*", re.DOTALL), r"\1***"),
    # Passwords in URLs.
    (re.compile(r"(://|Invalid value: \")(?:[^/?#\"\\]|\\.)*@"), r"\1***@"),
)


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
    PROFILE_PROVIDERS = "provider file of ClusterProfiles"


class LintReport(Value):
    """The problems of one config; ``kubernetes_text`` is the error with which the kubelet exits, if it does.

    ``suppressed`` are the findings that comments in the files suppress, ``sources`` the files, if they may be shown.
    """

    path: str
    kubernetes: str = LATEST
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


def make_report(
    kind: FileKind, source: SourceFile, findings: Iterable[Finding], kubernetes_text: str = ""
) -> LintReport:
    """Return the report on one file; the text is kept for a refusal only."""
    report = LintReport(
        path=source.path, files=(source.path,), findings=in_order(findings), kind=kind, sources=(source,)
    )
    return report if report.accepted else replace(report, kubernetes_text=kubernetes_text)


def text_lines(
    findings: Sequence[Finding], reports: Sequence[LintReport], width: int, *, wraps: bool
) -> Iterator[str]:
    """Yield each finding with the line of the file that it is about; with *wraps*, long texts are wrapped."""
    sources = {source.path: source for report in reports for source in report.sources}
    lines: dict[str, list[VisibleLine]] = {}
    for finding in findings:
        yield from _headed(finding, width if wraps else None)
        if finding.line is None or finding.file not in sources:
            continue
        if finding.file not in lines:
            lines[finding.file] = visible_source(sources[finding.file])
        yield from _frame(finding, lines[finding.file], width)


def _headed(finding: Finding, width: int | None) -> Iterator[str]:
    """Yield the place and the message of a finding, wrapped to *width* if there is one."""
    head = f"{_place(finding)}: {finding.severity} {finding.code}:"
    lines = [f"{head} {printable(_message(finding))}"]
    if width is not None:
        lines = list(fold(lines[0], "", "    ", width=width))
    severity = style(finding.severity, _STYLES[finding.severity])
    styled = f"{_place(finding)}: {severity} {style(finding.code, 'bold')}:"
    yield lines[0].replace(head, styled, 1)
    yield from lines[1:]


def _frame(finding: Finding, visible: list[VisibleLine], width: int) -> Iterator[str]:
    number = finding.line or 1
    if number <= len(visible):
        line = visible[number - 1]
        column = line.column(finding.column or 1)
        yield from source_frame(line.text, number, column, _marked(finding, line.text, column), width)


def _marked(finding: Finding, line: str, column: int) -> int:
    """Return the length of what a finding is about: of a key, or with its value."""
    return marked_length(line, column, with_value=not find_code(finding.code).of_name)


def annotation_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield each finding as a workflow command of GitHub Actions."""
    from keyferry.lint.catalogue import CODES
    from keyferry.show.reports import annotation

    for finding in findings:
        title = f"{finding.code}: {CODES[finding.code].title}"
        yield annotation(
            finding.severity,
            title,
            _message(finding),
            file=finding.file,
            line=finding.line,
            column=finding.column,
        )


def junit_text(reports: Sequence[LintReport], findings: Sequence[Finding], *, strict: bool = False) -> str:
    """Return one suite as JUnit XML: a case for each finding, and a passed one for each file without any.

    The case of an info fails only if *strict*.
    """
    from keyferry.show.reports import Case, to_junit

    found = [_case(finding, strict=strict) for finding in findings]
    named = {finding.file for finding in findings}
    clean = [file for report in reports for file in report.files or (report.path,) if file not in named]
    return to_junit("keyferry lint", [*found, *(Case(group=file, name="no problems") for file in clean)], 0.0)


def _case(finding: Finding, *, strict: bool) -> Case:
    from keyferry.show.reports import Case, CaseOutcome

    case = Case(
        group=finding.file or "-",
        name=f"{finding.code} {finding.path}".strip(),
        text=f"{_place(finding)}: {_message(finding)}",
    )
    if not is_failure(finding.severity, strict=strict):
        return case
    return replace(case, outcome=CaseOutcome.FAILED, message=finding.message, kind=str(finding.severity))


def table_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Return one line for each finding, in columns."""
    width = max((len(_place(finding)) for finding in findings), default=0)
    return (_line(finding, width) for finding in findings)


def report_document(
    reports: Sequence[LintReport], findings: Iterable[Finding], fixable: Sequence[int]
) -> Json:
    """Return the reports as a JSON document with stable fields; *fixable* has a number for each of them."""
    return make_document(
        "LintReport",
        targets=[_target(*each) for each in zip(reports, fixable, strict=True)],
        findings=[_finding(finding) for finding in findings],
    )


def statistics(findings: Iterable[Finding], output: str) -> Iterator[str]:
    """Yield how often each code was found, the most frequent first, as text or as JSON."""
    from keyferry.lint.catalogue import CODES

    counts = Counter(finding.code for finding in findings)
    found = [
        (number, CODES[name]) for name, number in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]
    if output == "json":
        items = [
            {"count": number, "code": code.code, "severity": str(code.severity), "title": code.title}
            for number, code in found
        ]
        yield as_json(make_document("LintStatistics", items=items))
        return
    width = max((len(str(number)) for number, _ in found), default=0)
    for number, code in found:
        severity = style(code.severity.ljust(_WIDEST), _STYLES[code.severity])
        yield f"{number:{width}}  {style(code.code, 'bold')}  {severity}  {code.title}"


def sarif_document(findings: Iterable[Finding], reports: Sequence[LintReport]) -> Json:
    """Return one SARIF run of the linter, with all its rules; *reports* have the files of the findings."""
    from keyferry.lint.catalogue import CODES
    from keyferry.show.reports import SarifResult, SarifRule, to_sarif

    rules = [
        SarifRule(code=code.code, severity=code.severity, title=code.title, why=code.why, fix=code.fix)
        for code in CODES.values()
    ]
    lines = {
        source.path: source.data.decode("utf-8", "replace").split("\n")
        for report in reports
        for source in report.sources
    }
    found = [
        SarifResult(
            code=each.code,
            severity=each.severity,
            message=each.message,
            path=each.path,
            file=each.file,
            line=each.line,
            column=each.column,
            end_column=_end_column(each, lines),
        )
        for each in findings
    ]
    return to_sarif(rules, found)


def _end_column(finding: Finding, lines: Mapping[str, list[str]]) -> int | None:
    """Return the column behind what a finding is about, if its line is known."""
    written = lines.get(finding.file, [])
    if finding.line is None or finding.line > len(written):
        return None
    column = finding.column or 1
    return column + _marked(finding, written[finding.line - 1], column)


def listing(codes: Sequence[Code], output: str) -> Iterator[str]:
    """Yield the explanations of codes as text or as JSON."""
    if output == "json":
        items = [_present(_code(code)) for code in codes]
        yield as_json(make_document("LintCodeList", items=items))
        return
    for code in codes:
        versions = f" (Kubernetes: {code.kubernetes})" if code.kubernetes else ""
        versions += " (depends on this machine)" if code.on_this_machine else ""
        severity = style(code.severity, _STYLES[code.severity])
        yield f"{style(code.code, 'bold')}  {severity}  {code.title}{versions}"
        yield f"       why: {code.why}"
        yield f"       do:  {code.fix}"


def _line(finding: Finding, width: int) -> str:
    severity = style(finding.severity.ljust(_WIDEST), _STYLES[finding.severity])
    message = printable(_message(finding))
    return f"{_place(finding).ljust(width)}  {severity}  {style(finding.code, 'bold')}  {message}"


def _message(finding: Finding) -> str:
    versions = f" (Kubernetes {', '.join(finding.versions)})" if finding.versions else ""
    return f"{finding.path}: {finding.message}{versions}" if finding.path else finding.message + versions


def _place(finding: Finding) -> str:
    parts = (finding.file or "-", finding.line, finding.column)
    return printable(":".join(str(part) for part in parts if part is not None))


def _target(report: LintReport, fixable: int) -> Json:
    return _present(
        {
            "path": report.path,
            "kind": None if report.kind is FileKind.PROVIDERS else report.kind,
            "binDir": report.bin_dir,
            "kubernetes": report.kubernetes,
            "files": list(report.files),
            "providers": report.providers if report.kind is FileKind.PROVIDERS else None,
            "accepted": report.accepted,
            "suppressed": len(report.suppressed),
            "fixable": fixable,
            "kubernetesText": _without_secrets(report.kubernetes_text),
        }
    )


def _finding(finding: Finding) -> Json:
    return _present(
        {
            "code": finding.code,
            "severity": str(finding.severity),
            "file": finding.file,
            "line": finding.line,
            "column": finding.column,
            "path": finding.path,
            "message": finding.message,
            "kubernetesText": _without_secrets(finding.kubernetes_text),
            "kubernetes": finding.kubernetes,
            "versions": list(finding.versions) or None,
        }
    )


def _code(code: Code) -> Json:
    return {
        "code": code.code,
        "severity": str(code.severity),
        "title": code.title,
        "why": code.why,
        "fix": code.fix,
        "kubernetes": code.kubernetes,
    }


def _without_secrets(text: str) -> str:
    for pattern, shown in _QUOTED:
        text = pattern.sub(shown, text)
    return text


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value not in (None, "")}
