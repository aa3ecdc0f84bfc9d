"""Rules about an image plugin's responses to normal requests: whether the kubelet accepts them."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.errors import Fault, PluginProtocolError
from keyferry.invoke.run import Ending
from keyferry.kit.lab.evidence import (
    GOOD_EXPERIMENTS,
    NO_DURATION,
    Evidence,
    Rule,
    Unchecked,
    Violation,
    is_reached,
    succeeded,
)

__all__ = ["ANSWER_RULES", "classify"]


_CODES = {
    Fault.SYNTAX: "KP102",
    Fault.GROUP_VERSION: "KP103",
    Fault.VERSION: "KP103",
    Fault.KIND: "KP104",
    Fault.DURATION: "KP107",
}


def classify(error: PluginProtocolError) -> str:
    """Return the code of the kubelet's objection to a response."""
    return _CODES.get(error.fault, "KP105")


# The order of the kubelet's checks: the first problem hides those after it.
_ORDER = (("KP102",), ("KP103",), ("KP104",), ("KP105", "KP107"))
_EXPECTED = {
    "KP102": "one JSON object, with nothing before or after it",
    "KP103": "the apiVersion of the request",
    "KP104": "'CredentialProviderResponse'",
    "KP105": "the five fields of the protocol, each of its type",
    "KP107": "a string such as '10m' or '0s'",
}


def decodes(code: str) -> Rule:
    """Return the rule for one class of responses that the kubelet rejects."""

    def judge(evidence: Evidence) -> Iterator[Violation]:
        errors = {name: evidence.problem(name) for name in _answered(evidence)}
        codes = {name: "" if error is None else classify(error) for name, error in errors.items()}
        if not any(is_reached(code, found, _ORDER) for found in codes.values()):
            raise Unchecked("an earlier problem hides this part of every response")
        for name, error in errors.items():
            if error is not None and codes[name] == code:
                found = error.problem + (surplus(evidence.outcome(name).stdout) if code == "KP102" else "")
                yield Violation(experiment=name, found=found, expected=_EXPECTED[code])

    return Rule(needs=GOOD_EXPERIMENTS, judge=judge)


def surplus(stdout: bytes) -> str:
    """Return how much of *stdout* is before and after its JSON object, as the end of a sentence; never its text."""
    start, end = stdout.find(b"{"), stdout.rstrip().rfind(b"}") + 1
    if not stdout.strip():
        return ": it is empty"
    if not 0 <= start < end:
        return f": none in {len(stdout)} bytes"
    sizes = {"before": len(stdout[:start]), "after": len(stdout[end:].strip())}
    found = [f"{size} bytes {place} it" for place, size in sizes.items() if size]
    return f": {' and '.join(found)}" if found else ""


def _answered(evidence: Evidence) -> list[str]:
    names = [name for name in evidence.good_experiments() if succeeded(evidence.outcome(name))]
    if not names:
        raise Unchecked("there is no valid response to check")
    return names


def ends_well(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation for each normal request without exit status 0."""
    for name in evidence.good_experiments():
        if not succeeded(evidence.outcome(name)):
            yield Violation(experiment=name, found=evidence.describe(name), expected=evidence.good_answer())


def _newline(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.valid_responses():
        if not evidence.outcome(name).stdout.endswith(b"\n"):
            yield Violation(
                experiment=name, found="no line end after the response", expected="a newline at the end"
            )


def _flood(evidence: Evidence) -> Iterator[Violation]:
    for name in evidence.good_experiments():
        if evidence.outcome(name).ending is Ending.STDOUT_LIMIT:
            yield Violation(
                experiment=name, found="more than 16 MB on standard output", expected="a few kilobytes"
            )


def _duration(evidence: Evidence) -> Iterator[Violation]:
    yield from decodes("KP107").judge(evidence)
    valid = [name for name in evidence.good_experiments() if evidence.is_good(name)]
    durations = {name: evidence.response(name).cache_duration_ns for name in valid}
    if durations and all(duration is None for duration in durations.values()):
        raise Unchecked(NO_DURATION)
    for name, duration in durations.items():
        if (duration or 0) < 0:
            yield Violation(experiment=name, found="a negative duration", expected="0s or more")


ANSWER_RULES: dict[str, Rule] = {
    "KP101": Rule(needs=GOOD_EXPERIMENTS, judge=ends_well),
    **{code: decodes(code) for code in ("KP102", "KP103", "KP104", "KP105")},
    "KP107": Rule(needs=GOOD_EXPERIMENTS, judge=_duration),
    "KP150": Rule(needs=GOOD_EXPERIMENTS, judge=_newline),
    "KP151": Rule(needs=GOOD_EXPERIMENTS, judge=_flood),
}
