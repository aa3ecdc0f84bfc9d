"""Findings and results for other tools: SARIF 2.1.0, JUnit XML, and workflow commands of GitHub Actions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from hashlib import sha256
from urllib.parse import quote
from xml.etree import ElementTree as ET

from keyferry import __version__
from keyferry._core.secrets import printable
from keyferry._core.severity import Severity
from keyferry._core.values import Value

Json = dict[str, object]

# Where the pages of docs/ are served, without a slash at the end. Nobody serves them yet, so no document refers there:
# a link that leads nowhere, or to whoever registers a name, is worse than none.
DOCS_ADDRESS = ""
_FINGERPRINT = "keyferryFinding/v1"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


class SarifRule(Value):
    """A rule: its code, its severity, its explanation and its fix."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str


class SarifResult(Value):
    """A finding of the rule with the code *code*: its message, the file, and the path of a field in it."""

    code: str
    severity: Severity
    message: str
    path: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None
    end_column: int | None = None


def to_sarif(
    rules: Sequence[SarifRule], findings: Iterable[SarifResult], *, docs: str = DOCS_ADDRESS
) -> Json:
    """Return one run with all *rules* and *findings*; with the address of the docs, rules refer to them."""
    driver: Json = {
        "name": "keyferry",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule, docs) for rule in rules],
    }
    if docs:
        driver["informationUri"] = docs
    places = {rule.code: at for at, rule in enumerate(rules)}
    found = list(findings)
    prints = _fingerprints(found)
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, places[finding.code], fingerprint)
            for finding, fingerprint in zip(found, prints, strict=True)
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: SarifRule, docs: str) -> Json:
    described: Json = {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.why}\n\nWhat to do: {rule.fix}",
            "markdown": f"**{rule.code}: {rule.title}**\n\n{rule.why}\n\n**What to do:** {rule.fix}",
        },
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }
    if docs:
        described["helpUri"] = f"{docs}/lint-codes.html#{rule.code.lower()}"
    return described


def _fingerprints(findings: Iterable[SarifResult]) -> Iterator[str]:
    """Yield what identifies each finding between runs: nothing in it changes if lines or list items are added.

    Equal findings of one run are numbered.
    """
    seen: dict[str, int] = {}
    for finding in findings:
        parts = (finding.code, _uri(finding.file) if finding.file else "", finding.path, finding.message)
        lasting = re.sub(r"\bline \d+|\[\d+\]", "", "\0".join(parts))
        digest = sha256(lasting.encode("utf-8", "surrogatepass")).hexdigest()
        seen[digest] = seen.get(digest, 0) + 1
        yield f"{digest}:{seen[digest]}"


def _result(finding: SarifResult, place: int, fingerprint: str) -> Json:
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": place,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }
    if finding.file:
        result["locations"] = [_location(finding)]
    return result


def _location(finding: SarifResult) -> Json:
    place: Json = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line is not None:
        region: Json = {"startLine": finding.line, "startColumn": finding.column or 1}
        if finding.end_column is not None:
            region["endColumn"] = finding.end_column
        place["region"] = region
    location: Json = {"physicalLocation": place}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    return location


def _uri(path: str) -> str:
    """Return a file's URI; a relative path stays relative, so that it matches the repository."""
    quoted = quote(os.fsencode(os.path.normpath(path)))
    return f"file://{quoted}" if os.path.isabs(path) else quoted


class CaseOutcome(StrEnum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Case(Value):
    """One case; *message* is why it failed or was skipped, *kind* the kind of the failure, *text* its output."""

    group: str
    name: str
    outcome: CaseOutcome = CaseOutcome.PASSED
    message: str = ""
    kind: str = ""
    text: str = ""


def to_junit(name: str, cases: Iterable[Case], seconds: float) -> str:
    """Return one suite with its cases as XML."""
    suite = ET.Element("testsuite")
    elements = [_case(case) for case in cases]
    suite.attrib.update(
        {
            "name": _clean(name),
            "tests": str(len(elements)),
            "failures": str(sum(element.find("failure") is not None for element in elements)),
            "errors": "0",
            "skipped": str(sum(element.find("skipped") is not None for element in elements)),
            "time": f"{seconds:.3f}",
        }
    )
    suite.extend(elements)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(case: Case) -> ET.Element:
    element = ET.Element("testcase", classname=_clean(case.group), name=_clean(case.name), time="0")
    if case.outcome is CaseOutcome.SKIPPED:
        ET.SubElement(element, "skipped", message=_clean(case.message))
    elif case.outcome is CaseOutcome.FAILED:
        failure = ET.SubElement(element, "failure", message=_clean(case.message), type=_clean(case.kind))
        failure.text = _clean(case.text)
    elif case.text:
        ET.SubElement(element, "system-out").text = _clean(case.text)
    return element


def _clean(text: str) -> str:
    """Return *text* with U+FFFD in place of characters that XML does not allow."""
    return "".join(char if _is_allowed(char) else "\ufffd" for char in text)


def _is_allowed(char: str) -> bool:
    return char in "\t\n" or " " <= char < "\ud800" or "\ue000" <= char <= "\ufffd"


def annotation(
    severity: Severity,
    title: str,
    message: str,
    *,
    file: str = "",
    line: int | None = None,
    column: int | None = None,
) -> str:
    """Return one workflow command, with everything escaped that would end a property or the command."""
    place = {"file": file, "line": line, "col": column, "title": title}
    given = ((name, str(value)) for name, value in place.items() if value not in (None, ""))
    properties = ",".join(f"{name}={_property(value)}" for name, value in given)
    return f"::{_COMMANDS[severity]} {properties}::{_data(message)}"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
