"""All checks, collected from their modules, in the order of their codes."""

from __future__ import annotations

from keyferry.kit.checks import cluster, process, requests, responses
from keyferry.kit.checks.check import Check, Code, declared
from keyferry.kit.plugin import PluginKind

__all__ = ["CHECKS", "checks_for"]

_CODES = [
    each.code
    for module in (responses, requests, cluster, process)
    for each in vars(module).values()
    if isinstance(each, Code)
]
# A KeyError means that no function is decorated with that code.
CHECKS: dict[str, Check] = {code: declared[code] for code in sorted(_CODES)}


def checks_for(kind: PluginKind) -> tuple[Check, ...]:
    """Return the checks that apply to plugins of *kind*."""
    return tuple(each for each in CHECKS.values() if kind in each.kinds)
