"""Results as JUnit XML, which tools that show test results read."""

from __future__ import annotations

from enum import StrEnum
from xml.etree import ElementTree as ET

from keyferry._core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Case", "CaseOutcome", "to_junit"]


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
