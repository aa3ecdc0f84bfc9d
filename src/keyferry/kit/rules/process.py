"""Rules about the process of a plugin: failures, resources, what it leaves behind, and its environment."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.images.provider.plugin import go_exit_text
from keyferry.invoke.run import Ending
from keyferry.kit.lab.evidence import (
    GOOD_EXPERIMENTS,
    Evidence,
    Rule,
    Unchecked,
    Violation,
    failed,
    succeeded,
)
from keyferry.kit.lab.experiments import EVERY_EXPERIMENT, Family
from keyferry.kit.lab.processes import can_look

__all__ = ["PROCESS_RULES"]

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
    Family.NORMAL,
    "again",
    "sibling",
    "foreign",
    "account",
    Family.VERSION,
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
        for name in evidence.names(*EVERY_EXPERIMENT)
        if failed(evidence.outcome(name)) and evidence.experiments[name].has_reader
    ]
    if not names:
        raise Unchecked("no run failed with an exit status of its own")
    return names


def _silent(evidence: Evidence) -> Iterator[Violation]:
    for name in _failed(evidence):
        if not evidence.outcome(name).stderr.strip():
            yield Violation(
                experiment=name,
                found=f"{evidence.describe(name)}",
                expected="a line with the reason of the failure",
            )


def _half_answer(evidence: Evidence) -> Iterator[Violation]:
    for name in _failed(evidence):
        size = len(evidence.outcome(name).stdout)
        if size:
            yield Violation(
                experiment=name, found=f"a failure with {size} bytes on standard output", expected="no output"
            )


def _crash_report(evidence: Evidence) -> Iterator[Violation]:
    for name in _failed(evidence):
        if any(mark in evidence.outcome(name).stderr for mark in _CRASHES):
            yield Violation(experiment=name, found="a stack trace on standard error", expected="one sentence")


def _loud(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*EVERY_EXPERIMENT):
        if evidence.outcome(name).ending is Ending.STDERR_LIMIT:
            yield Violation(
                experiment=name, found="more than 64 MB on standard error", expected="a few lines"
            )


def _late(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.good_experiments():
        outcome = evidence.outcome(name)
        if outcome.ending is Ending.TIMED_OUT:
            yield Violation(
                experiment=name,
                found=evidence.describe(name),
                expected=f"an exit within {evidence.limit(name):g} s",
            )
        elif outcome.seconds > _KUBELET_SECONDS:
            yield Violation(
                experiment=name,
                found=f"it took {outcome.seconds:.0f} s",
                expected=f"less than {_KUBELET_SECONDS:g} s",
            )


def _slow(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    for name in evidence.good_experiments():
        outcome = evidence.outcome(name)
        if outcome.ending is Ending.EXITED and outcome.seconds > _SLOW_SECONDS:
            yield Violation(
                experiment=name,
                found=f"it took {outcome.seconds:.0f} s",
                expected=f"less than {_SLOW_SECONDS:g} s",
            )


def _large(evidence: Evidence) -> Iterator[Violation]:
    is_unknown = False
    for name in evidence.names(*EVERY_EXPERIMENT):
        run = evidence.run(name)
        if run.peak_bytes is None or (run.peak_bytes > _LARGE_BYTES and not run.is_peak_exact):
            is_unknown = True
        elif run.peak_bytes > _LARGE_BYTES:
            found = f"{run.peak_bytes // 1024**2} MB"
            yield Violation(experiment=name, found=found, expected=f"less than {_LARGE_BYTES // 1024**2} MB")
    if is_unknown:
        raise Unchecked("the memory of some runs could not be measured")


def _crashed(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*_ORDINARY):
        outcome = evidence.outcome(name)
        if outcome.ending is Ending.TIMED_OUT:
            yield Violation(experiment=name, found=evidence.describe(name), expected="an exit")
        elif outcome.ending is Ending.EXITED and not succeeded(outcome) and not failed(outcome):
            yield Violation(
                experiment=name,
                found=go_exit_text(outcome.status or 0),
                expected="an exit status from 0 to 125 or from 252 to 255",
            )


def _left_behind(evidence: Evidence) -> Iterator[Violation]:
    if all(run.left_behind is None for run in evidence.runs.values()):
        raise Unchecked("no run exited" if can_look() else "this system has no /proc")
    for name in evidence.names(*EVERY_EXPERIMENT):
        run = evidence.run(name)
        if run.left_behind and not run.held_output:
            programs = ", ".join(sorted({process.name for process in run.left_behind}))
            yield Violation(
                experiment=name, found=f"still running after its exit: {programs}", expected="no process"
            )


def _holding(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.names(*EVERY_EXPERIMENT):
        run = evidence.run(name)
        if run.held_output:
            programs = ", ".join(sorted({process.name for process in run.left_behind or ()}))
            found = "its output is still open a second after its exit"
            yield Violation(
                experiment=name,
                found=found + (f", held by: {programs}" if programs else ""),
                expected="closed output",
            )


def as_good(*names: str) -> Rule:
    """Return the rule that experiments must end with a valid response, as the first one did."""

    def judge(evidence: Evidence) -> Iterator[Violation]:
        evidence.require_good()
        for name in evidence.names(*names):
            if not evidence.is_good(name):
                yield Violation(
                    experiment=name,
                    found=evidence.describe(name),
                    expected="a response as valid as the first",
                )

    return Rule(needs=names, judge=judge)


def _bare(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    if not evidence.is_good("bare environment") and not evidence.is_good("no home"):
        raise Unchecked("it fails without a home folder, see KP329")
    yield from as_good("bare environment").judge(evidence)


def _unread(evidence: Evidence) -> Iterator[Violation]:
    if evidence.outcome("no reader").ending is not Ending.EXITED:
        yield Violation(
            experiment="no reader", found=evidence.describe("no reader"), expected="an exit, with any status"
        )
    else:
        evidence.require_good()


def _no_network(evidence: Evidence) -> Iterator[Violation]:
    outcome = evidence.outcome("no network")
    refused = failed(outcome)
    # A response that is also wrong with a network is reported by another check.
    is_worse = not evidence.is_good("no network") and (outcome.status != 0 or evidence.is_good("good"))
    if not refused and is_worse:
        yield Violation(
            experiment="no network",
            found=evidence.describe("no network"),
            expected="a valid response, or a failure with a message",
        )
    else:
        evidence.require_good()


PROCESS_RULES: dict[str, Rule] = {
    "KP310": Rule(needs=EVERY_EXPERIMENT, judge=_silent),
    "KP311": Rule(needs=EVERY_EXPERIMENT, judge=_half_answer),
    "KP312": Rule(needs=EVERY_EXPERIMENT, judge=_crash_report),
    "KP313": Rule(needs=EVERY_EXPERIMENT, judge=_loud),
    "KP320": Rule(needs=GOOD_EXPERIMENTS, judge=_late),
    "KP321": Rule(needs=GOOD_EXPERIMENTS, judge=_slow),
    "KP322": Rule(needs=EVERY_EXPERIMENT, judge=_large),
    "KP323": Rule(needs=_ORDINARY, judge=_crashed),
    "KP324": Rule(needs=EVERY_EXPERIMENT, judge=_left_behind),
    "KP325": Rule(needs=EVERY_EXPERIMENT, judge=_holding),
    "KP326": as_good(Family.SIMULTANEOUS),
    "KP327": as_good(Family.LOCALE),
    "KP328": as_good("working directory /"),
    "KP329": as_good("no home", "home that is no folder"),
    "KP330": Rule(needs=("bare environment", "no home"), judge=_bare),
    "KP331": Rule(needs=("no reader",), judge=_unread),
    "KP332": Rule(needs=("no network",), judge=_no_network),
}
