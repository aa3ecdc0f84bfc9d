"""A report in JUnit's XML, for whatever shows test results."""

from xml.etree import ElementTree as ET

from keyferry._core.secrets import printable
from keyferry.kit.report import Report, Result, Status

__all__ = ["to_junit"]


def to_junit(report: Report, *, strict: bool = False) -> str:
    """One suite with one case for each check; a warning is a failure if *strict*, else output of its case."""
    suite = ET.Element("testsuite")
    cases = [_case(report, result, strict=strict) for result in report.results]
    suite.attrib.update(
        {
            "name": _clean(f"keyferry plugin test {report.plugin}"),
            "tests": str(len(cases)),
            "failures": str(sum(case.find("failure") is not None for case in cases)),
            "errors": "0",
            "skipped": str(sum(case.find("skipped") is not None for case in cases)),
            "time": f"{report.seconds:.3f}",
        }
    )
    suite.extend(cases)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(report: Report, result: Result, *, strict: bool) -> ET.Element:
    check = result.check
    case = ET.Element(
        "testcase", classname=f"keyferry.{report.kind}", name=f"{check.code} {check.title}", time="0"
    )
    if result.status is Status.SKIPPED:
        ET.SubElement(case, "skipped", message=_clean(result.reason))
    elif result.status is Status.FAILED:
        fails = check.severity == "error" or (strict and check.severity == "warning")
        element = ET.SubElement(case, "failure" if fails else "system-out")
        if fails:
            element.attrib.update({"message": _clean(result.broken[0].found), "type": check.severity})
        element.text = _clean(_text(result))
    return case


def _text(result: Result) -> str:
    blocks = [
        f"{printable(one.experiment)}\n  found:    {printable(one.found)}\n"
        f"  expected: {printable(one.expected)}\n  repeat:   {printable(one.repeat)}"
        for one in result.broken
    ]
    return "\n".join([*blocks, f"why: {result.check.why}", f"what to do: {result.check.fix}"])


def _clean(text: str) -> str:
    """*text* without what XML cannot hold."""
    return "".join(char if _is_allowed(char) else "\ufffd" for char in text)


def _is_allowed(char: str) -> bool:
    return char in "\t\n" or " " <= char < "\ud800" or "\ue000" <= char <= "\ufffd"
