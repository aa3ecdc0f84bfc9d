"""Rules about input that is malformed, hostile or unusual."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry.errors import Fault
from keyferry.kit.lab.evidence import A_FAILURE, Evidence, Rule, Violation, failed, succeeded
from keyferry.kit.lab.experiments import Family
from keyferry.kit.rules.scope import refuses

__all__ = ["INPUT_RULES", "survives"]

_SHELL = ("image: shell words", "image: shell quotes")
_EXPECTED = f"{A_FAILURE}, or a valid response"


def survives(*names: str) -> Rule:
    """Return the rule that experiments must exit in time with a failure of their own or a valid response."""

    def judge(evidence: Evidence) -> Iterator[Violation]:
        broken = [name for name in evidence.names(*names) if not _survived(evidence, name)]
        if not broken:
            evidence.require_good()
        for name in broken:
            yield Violation(experiment=name, found=evidence.describe(name), expected=_EXPECTED)

    return Rule(needs=names, judge=judge)


def _survived(evidence: Evidence, name: str) -> bool:
    outcome = evidence.outcome(name)
    # A response in any version is valid, because the version of the request cannot be read.
    return failed(outcome) or (succeeded(outcome) and is_answer(evidence, name))


def is_answer(evidence: Evidence, name: str) -> bool:
    """Return whether the output is a valid response, or one in another version than the request's."""
    error = evidence.problem(name)
    return error is None or (bool(evidence.outcome(name).stdout.strip()) and error.fault is Fault.VERSION)


def _injected(evidence: Evidence) -> Iterator[Violation]:
    names = list(evidence.names(*_SHELL))
    if evidence.canary_made and names:
        yield Violation(
            experiment=names[0],
            found="a file that a command in the image's name has created",
            expected="no such file",
        )
    else:
        evidence.require_good()


INPUT_RULES: dict[str, Rule] = {
    "KP140": refuses("empty input"),
    "KP141": survives("text", "binary", "array", "wrong types"),
    "KP142": survives("truncated"),
    "KP143": survives("byte order mark", "UTF-16"),
    "KP144": survives("two documents", "repeated field"),
    "KP145": survives("deep nesting"),
    "KP146": survives("huge input"),
    "KP147": survives(Family.IMAGE_NAME),
    "KP148": Rule(needs=_SHELL, judge=_injected),
}
