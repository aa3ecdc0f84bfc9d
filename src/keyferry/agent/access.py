"""Who may ask the agent for what: callers by user id and group id, and the registries of each."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry._core.values import Value
from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from keyferry.images.match import PatternIndex
from keyferry.lint.kinds.agent_config import OVERFLOW_ID

__all__ = ["AccessPolicy", "Caller", "CallerRights"]

_ROOT = 0
_MOST_CALLERS = 1024


class Caller(Value):
    """The process at the other end of a connection, as the kernel names it; the process id is 0 if it is unknown.

    *program* is empty if it was not asked for, or cannot be told.
    """

    uid: int
    gids: frozenset[int]
    pid: int = 0
    program: str = ""


class CallerRights:
    """What one caller may ask for."""

    __slots__ = ("_patterns", "has_every_registry", "may_manage")

    def __init__(self, patterns: Sequence[str], *, has_every_registry: bool, may_manage: bool) -> None:
        self._patterns = PatternIndex(enumerate(patterns)) if patterns else None
        self.has_every_registry = has_every_registry
        self.may_manage = may_manage

    @property
    def has_any(self) -> bool:
        """Whether a rule names the caller."""
        return self.may_manage or self.has_every_registry or self._patterns is not None

    def may_ask(self, repository: str) -> bool:
        """Return whether the caller may have credentials for a normalised image name."""
        if self.has_every_registry:
            return True
        return self._patterns is not None and bool(self._patterns.match(repository))


class AccessPolicy:
    """The rules of a config. Root and the agent's own user, who can read its memory, may ask for everything."""

    def __init__(
        self, access: Sequence[AccessRule] = (), manage: Sequence[ManageRule] = (), *, own_uid: int
    ) -> None:
        self._access = tuple(access)
        self._manage = tuple(manage)
        self._trusted = {_ROOT, own_uid}
        self._known: dict[tuple[int, frozenset[int]], CallerRights] = {}

    def rights_of(self, caller: Caller) -> CallerRights:
        """Return what a caller may ask for; nothing if no rule names it."""
        key = (caller.uid, caller.gids)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_CALLERS:
                self._known.clear()
            found = self._known[key] = self._judge(caller)
        return found

    def _judge(self, caller: Caller) -> CallerRights:
        if caller.uid in self._trusted:
            return CallerRights((), has_every_registry=True, may_manage=True)
        rules = [rule for rule in self._access if _names(rule, caller)]
        return CallerRights(
            [pattern for rule in rules for pattern in rule.registries],
            has_every_registry=any(rule.every_registry for rule in rules),
            may_manage=any(_names(rule, caller) for rule in self._manage),
        )


def _names(rule: AccessRule | ManageRule, caller: Caller) -> bool:
    if caller.uid in rule.uids:
        return True
    # A user without a number here may be anybody, so that only a rule for exactly this user counts.
    return caller.uid != OVERFLOW_ID and not caller.gids.isdisjoint(rule.gids)
