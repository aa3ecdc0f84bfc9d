"""Lint reports as SARIF 2.1.0, which code scanners and editors read."""

import os
from collections.abc import Iterable
from urllib.parse import quote

from keyferry import __version__
from keyferry.lint.codes.catalogue import CODES, Code, Severity
from keyferry.lint.report import Finding

Json = dict[str, object]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def to_sarif(findings: Iterable[Finding]) -> Json:
    """One run of the linter, with every rule it knows."""
    driver = {"name": "keyferry", "version": __version__, "rules": [_rule(code) for code in CODES.values()]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: Code) -> Json:
    return {
        "id": code.code,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": code.why},
        "help": {"text": f"{code.why}\n\nWhat to do: {code.fix}"},
        "defaultConfiguration": {"level": _LEVELS[code.severity]},
    }


def _result(finding: Finding) -> Json:
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": list(CODES).index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
    }
    if finding.file:
        result["locations"] = [_location(finding)]
    return result


def _location(finding: Finding) -> Json:
    place: Json = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line is not None:
        place["region"] = {"startLine": finding.line, "startColumn": finding.column or 1}
    location: Json = {"physicalLocation": place}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    return location


def _uri(path: str) -> str:
    """A file's URI; a relative path stays relative, so that it fits the repository it was found in."""
    quoted = quote(os.fsencode(os.path.normpath(path)))
    return f"file://{quoted}" if os.path.isabs(path) else quoted
