"""Lint reports as text and as JSON documents."""

import re
from collections.abc import Iterable, Iterator, Sequence

from keyferry._core.secrets import printable
from keyferry._core.severity import Severity
from keyferry.lint.codes.catalogue import CODES, Code
from keyferry.lint.report import FileKind, Finding, LintReport
from keyferry.show.documents import as_json, make_document
from keyferry.show.writer import style

Json = dict[str, object]

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


def table_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Return one line for each finding, in columns."""
    width = max((len(_place(finding)) for finding in findings), default=0)
    return (_line(finding, width) for finding in findings)


def report_document(reports: Sequence[LintReport], findings: Iterable[Finding]) -> Json:
    """Return the reports as a JSON document with stable fields."""
    return make_document(
        "LintReport",
        targets=[_target(report) for report in reports],
        findings=[_finding(finding) for finding in findings],
    )


def sarif_document(findings: Iterable[Finding]) -> Json:
    """Return one SARIF run of the linter, with all its rules."""
    from keyferry.show import sarif

    rules = [
        sarif.SarifRule(code.code, code.severity, code.title, code.why, code.fix) for code in CODES.values()
    ]
    found = [
        sarif.SarifResult(
            each.code, each.severity, each.message, each.path, each.file, each.line, each.column
        )
        for each in findings
    ]
    return sarif.to_sarif(rules, found)


def listing(codes: Sequence[Code], output: str) -> Iterator[str]:
    """Yield the explanations of codes as text or as JSON."""
    if output == "json":
        items = [_present(_code(code)) for code in codes]
        yield as_json(make_document("LintCodeList", items=items))
        return
    for code in codes:
        versions = f" (Kubernetes: {code.kubernetes})" if code.kubernetes else ""
        severity = style(code.severity, _STYLES[code.severity])
        yield f"{style(code.code, 'bold')}  {severity}  {code.title}{versions}"
        yield f"       why: {code.why}"
        yield f"       do:  {code.fix}"


def _line(finding: Finding, width: int) -> str:
    severity = style(finding.severity.ljust(_WIDEST), _STYLES[finding.severity])
    message = f"{finding.path}: {finding.message}" if finding.path else finding.message
    return f"{_place(finding).ljust(width)}  {severity}  {style(finding.code, 'bold')}  {printable(message)}"


def _place(finding: Finding) -> str:
    parts = (finding.file or "-", finding.line, finding.column)
    return printable(":".join(str(part) for part in parts if part is not None))


def _target(report: LintReport) -> Json:
    return _present(
        {
            "path": report.path,
            "kind": None if report.kind is FileKind.PROVIDERS else report.kind,
            "binDir": report.bin_dir,
            "kubernetes": report.kubernetes,
            "files": list(report.files),
            "providers": report.providers if report.kind is FileKind.PROVIDERS else None,
            "accepted": report.accepted,
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
