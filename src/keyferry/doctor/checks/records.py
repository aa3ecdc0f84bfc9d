"""The pull records: the policy that reads them, their folder, and the space on its disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from keyferry._core.severity import Severity
from keyferry.doctor.facts import DiskFacts, RecordsFacts
from keyferry.doctor.health import HealthLevel, HealthLine
from keyferry.doctor.hints import Hints
from keyferry.images.node.settings import RECORDS_GATE
from keyferry.lint.report import LintReport

__all__ = ["check_disk", "check_records"]

# Below this the kubelet evicts pods (nodefs.available).
_LEAST_FREE_PERCENT = 10
_LEVELS = {Severity.ERROR: HealthLevel.PROBLEM, Severity.WARNING: HealthLevel.WARNING}
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def check_records(facts: RecordsFacts | None, hints: Hints, *, is_root: bool) -> Iterator[HealthLine]:
    """Yield the policy, and the state of the folder of records."""
    if facts is None:
        return
    if facts.is_off:
        text = f"the feature gate {RECORDS_GATE} is off: every pod may use every image that is on the node"
        yield HealthLine(level=HealthLevel.OK, subject="policy", text=text)
    elif facts.policy_problem:
        yield HealthLine(
            level=HealthLevel.PROBLEM, subject="policy", text=f"{facts.policy_from}: {facts.policy_problem}"
        )
    else:
        yield HealthLine(level=HealthLevel.OK, subject="policy", text=f"{facts.policy} ({facts.policy_from})")
    folder = f"{facts.root}/image_manager"
    if facts.unreadable:
        command = "" if is_root else hints.doctor(is_root=True)
        text = f"{folder} cannot be read: {facts.unreadable}"
        yield HealthLine(level=HealthLevel.UNKNOWN, subject="records", text=text, next_command=command)
    elif facts.report is None:
        text = f"{folder} does not exist: kubelets keep records from 1.35 on, or with the gate {RECORDS_GATE}"
        yield HealthLine(level=HealthLevel.OK, subject="records", text=text)
    else:
        yield from _folder(folder, facts.count, facts.report, hints)


def _folder(folder: str, count: int, report: LintReport, hints: Hints) -> Iterator[HealthLine]:
    counts = Counter(finding.severity for finding in report.findings)
    text = f"{folder} has {count} records"
    if not counts[Severity.ERROR] and not counts[Severity.WARNING]:
        yield HealthLine(
            level=HealthLevel.OK, subject="records", text=text, next_command="keyferry records list"
        )
    for severity, level in _LEVELS.items():
        number = counts[severity]
        if number:
            found = f"{text}; lint: {number} {severity}{'s' * (number > 1)}"
            yield HealthLine(
                level=level, subject="records", text=found, next_command=hints.lint(folder), count=number
            )


def check_disk(facts: DiskFacts | None) -> Iterator[HealthLine]:
    """Yield the free space of the kubelet's root."""
    if facts is None or not facts.total:
        return
    percent = 100 * facts.free // facts.total
    text = f"{facts.path}: {_size(facts.free)} of {_size(facts.total)} are free ({percent} %)"
    if percent >= _LEAST_FREE_PERCENT:
        yield HealthLine(level=HealthLevel.OK, subject="disk", text=text)
    else:
        text = f"{text}; below {_LEAST_FREE_PERCENT} % the kubelet evicts pods and removes images by default"
        yield HealthLine(
            level=HealthLevel.WARNING, subject="disk", text=text, next_command=f"df -h {facts.path}"
        )


def _size(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
