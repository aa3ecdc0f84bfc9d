"""What a check is: a code with its words, the experiments it needs, and the function that finds violations.

A code stands beside its function. It has a free number: KP1 is for image plugins, KP2 for cluster plugins, KP3 for
both; ``keyferry plugin test --list`` shows those that are taken::

    KP108 = Code(
        code="KP108",
        severity=Severity.WARNING,
        title="returns a cacheDuration",
        why="without it the kubelet uses the defaultCacheDuration of its config",
        fix="set cacheDuration somewhat shorter than the lifetime of the credential",
    )

    @check(KP108, needs=NORMAL)
    def has_a_duration(evidence: Evidence) -> Iterator[Violation]:
        for each in evidence.valid_responses():
            if each.response.cache_duration_ns is None:
                yield each.violation("no cacheDuration", "a duration such as '10m'")

``evidence.selected`` are all runs of these experiments, ``evidence.valid_responses()`` those with a valid response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.severity import Severity
from keyferry._core.values import Value, fields
from keyferry.kit.lab.evidence import Evidence, Violation
from keyferry.kit.plugin import PluginKind

__all__ = ["Check", "Code", "Judge", "check", "declared"]

Judge = Callable[[Evidence], Iterator[Violation]]
_KINDS = {"KP1": (PluginKind.IMAGE,), "KP2": (PluginKind.CLUSTER,), "KP3": tuple(PluginKind)}


class Code(Value):
    """One requirement of a plugin: the severity of a violation, the reason, and what to change."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str

    @property
    def kinds(self) -> tuple[PluginKind, ...]:
        """The kinds of plugins that it applies to: KP1 is for image plugins, KP2 for cluster plugins, KP3 for both."""
        return _KINDS[self.code[:3]]


class Check(Code):
    """A code with the names and families of the experiments it needs, and the function that judges them."""

    needs: tuple[str, ...]
    judge: Judge


# By code, those of the modules that are imported; the catalogue has all.
declared: dict[str, Check] = {}


def check(code: Code, *, needs: tuple[str, ...]) -> Callable[[Judge], Judge]:
    """Declare that the decorated function finds the violations of *code* in the experiments that it *needs*.

    The function gets these experiments as ``evidence.selected``, if they were run. It raises Unchecked if what it is
    to judge cannot be seen in them. One function may judge several codes; one of another module is declared with
    ``check(KP201, needs=NORMAL)(function)``.
    """

    def declare(judge: Judge) -> Judge:
        if code.code in declared:
            raise ValueError(f"{code.code} has a check already")
        declared[code.code] = Check(**fields(code), needs=needs, judge=judge)
        return judge

    return declare
