"""Rules about the process of a plugin: failures, resources, what it leaves behind, and its environment."""

from collections.abc import Iterator

from keyferry.images.provider.plugin import go_exit_text
from keyferry.invoke.process import Ending
from keyferry.kit.lab.evidence import (
    GOOD_EXPERIMENTS,
    Evidence,
    Rule,
    Unchecked,
    Violation,
    failed,
    succeeded,
)
from keyferry.kit.lab.processes import can_look

__all__ = ["PROCESS_RULES"]

_EVERYTHING = ("*",)
_KUBELET_SECONDS = 60.0
_SLOW_SECONDS = 10.0
_LARGE_BYTES = 512 * 1024 * 1024
_CRASHES = (
    b"Traceback (most recent call last)",
    b"goroutine 1 [",
    b"panic: ",
    b"' panicked at ",
    b"Exception in thread ",
    b"    at node:internal",
)
# The experiments that no other rule checks for a signal.
_ORDINARY = (
    "good",
    "good *",
    "again",
    "sibling",
    "foreign",
    "account",
    "version *",
    "unknown field",
    "wrong kind",
    "wrong group",
    "wrong version",
    "empty image",
    "empty input",
    "with cluster",
    "input",
)


def _failed(evidence: Evidence) -> list[str]:
    """Return the runs that failed with an exit status of their own; raise Unchecked if there are none."""
    names = [
        name
        for name in evidence.names(*_EVERYTHING)
        if failed(evidence.outcome(name)) and evidence.experiments[name].has_reader
    ]
    if not names:
        raise Unchecked("no run failed with an exit status of its own")
    return names


def _silent(evidence: Evidence) -> Iterator[Violation]:
    for name in _failed(evidence):
        if not evidence.outcome(name).stderr.strip():
            yield Violation(name, f"{evidence.describe(name)}", "a line with the reason of the failure")


def _half_answer(evidence: Evidence) -> Iterator[Violation]:
    for name in _failed(evidence):
        size = len(evidence.outcome(name).stdout)
        if size:
            yield Violation(name, f"a failure with {size} bytes on standard output", "no output")


def _crash_report(evidence: Evidence) -> Iterator[Violation]:
    for name in _failed(evidence):
        if any(mark in evidence.outcome(name).stderr for mark in _CRASHES):
            yield Violation(name, "a stack trace on standard error", "one sentence")


def _loud(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*_EVERYTHING):
        if evidence.outcome(name).ending is Ending.STDERR_LIMIT:
            yield Violation(name, "more than 64 MB on standard error", "a few lines")


def _late(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.good_experiments():
        outcome = evidence.outcome(name)
        if outcome.ending is Ending.TIMED_OUT:
            yield Violation(name, evidence.describe(name), f"an exit within {evidence.limit(name):g} s")
        elif outcome.seconds > _KUBELET_SECONDS:
            yield Violation(name, f"it took {outcome.seconds:.0f} s", f"less than {_KUBELET_SECONDS:g} s")


def _slow(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    for name in evidence.good_experiments():
        outcome = evidence.outcome(name)
        if outcome.ending is Ending.EXITED and outcome.seconds > _SLOW_SECONDS:
            yield Violation(name, f"it took {outcome.seconds:.0f} s", f"less than {_SLOW_SECONDS:g} s")


def _large(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*_EVERYTHING):
        peak = evidence.run(name).peak_bytes
        if peak is not None and peak > _LARGE_BYTES:
            yield Violation(name, f"{peak // 1024**2} MB", f"less than {_LARGE_BYTES // 1024**2} MB")


def _crashed(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*_ORDINARY):
        outcome = evidence.outcome(name)
        if outcome.ending is Ending.TIMED_OUT:
            yield Violation(name, evidence.describe(name), "an exit")
        elif outcome.ending is Ending.EXITED and not succeeded(outcome) and not failed(outcome):
            yield Violation(
                name, go_exit_text(outcome.status or 0), "an exit status from 0 to 125 or from 252 to 255"
            )


def _left_behind(evidence: Evidence) -> Iterator[Violation]:
    if all(run.left_behind is None for run in evidence.runs.values()):
        raise Unchecked("no run exited" if can_look() else "this system has no /proc")
    for name in evidence.names(*_EVERYTHING):
        run = evidence.run(name)
        if run.left_behind and not run.held_output:
            programs = ", ".join(sorted({process.name for process in run.left_behind}))
            yield Violation(name, f"still running after its exit: {programs}", "no process")


def _holding(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*_EVERYTHING):
        run = evidence.run(name)
        if run.held_output:
            programs = ", ".join(sorted({process.name for process in run.left_behind or ()}))
            found = "its output is still open a second after its exit"
            yield Violation(name, found + (f", held by: {programs}" if programs else ""), "closed output")


def as_good(*names: str) -> Rule:
    """Return the rule that experiments must end with a valid response, as the first one did."""

    def judge(evidence: Evidence) -> Iterator[Violation]:
        evidence.require_good()
        for name in evidence.names(*names):
            if not evidence.is_good(name):
                yield Violation(name, evidence.describe(name), "a response as valid as the first")

    return Rule(names, judge)


def _bare(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    if not evidence.is_good("bare environment") and not evidence.is_good("no home"):
        raise Unchecked("it fails without a home folder, see KP329")
    yield from as_good("bare environment").judge(evidence)


def _unread(evidence: Evidence) -> Iterator[Violation]:
    if evidence.outcome("no reader").ending is not Ending.EXITED:
        yield Violation("no reader", evidence.describe("no reader"), "an exit, with any status")


def _no_network(evidence: Evidence) -> Iterator[Violation]:
    outcome = evidence.outcome("no network")
    refused = failed(outcome)
    # A response that is also wrong with a network is reported by another check.
    is_worse = not evidence.is_good("no network") and (outcome.status != 0 or evidence.is_good("good"))
    if not refused and is_worse:
        yield Violation(
            "no network", evidence.describe("no network"), "a valid response, or a failure with a message"
        )


PROCESS_RULES: dict[str, Rule] = {
    "KP310": Rule(_EVERYTHING, _silent),
    "KP311": Rule(_EVERYTHING, _half_answer),
    "KP312": Rule(_EVERYTHING, _crash_report),
    "KP313": Rule(_EVERYTHING, _loud),
    "KP320": Rule(GOOD_EXPERIMENTS, _late),
    "KP321": Rule(GOOD_EXPERIMENTS, _slow),
    "KP322": Rule(_EVERYTHING, _large),
    "KP323": Rule(_ORDINARY, _crashed),
    "KP324": Rule(_EVERYTHING, _left_behind),
    "KP325": Rule(_EVERYTHING, _holding),
    "KP326": as_good("at once *"),
    "KP327": as_good("locale *"),
    "KP328": as_good("working directory /"),
    "KP329": as_good("no home", "home that is no folder"),
    "KP330": Rule(("bare environment", "no home"), _bare),
    "KP331": Rule(("no reader",), _unread),
    "KP332": Rule(("no network",), _no_network),
}
