"""What a check is: a code with its words, the experiments it needs, and the function that finds violations."""

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
