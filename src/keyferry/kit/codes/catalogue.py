"""The stable codes of the conformance kit."""

from __future__ import annotations

from keyferry._core.severity import Severity
from keyferry._core.values import Value
from keyferry.kit.codes.cluster import CLUSTER_CODES
from keyferry.kit.codes.image import IMAGE_CODES
from keyferry.kit.codes.process import PROCESS_CODES
from keyferry.kit.plugin_kind import PluginKind

__all__ = ["CHECKS", "Check", "checks_for"]


class Check(Value):
    """One requirement of a plugin: the severity of a violation, the reason, and what to change."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str


CHECKS: dict[str, Check] = {
    code: Check(code=code, severity=Severity(severity), title=title, why=why, fix=fix)
    for table in (IMAGE_CODES, CLUSTER_CODES, PROCESS_CODES)
    for code, (severity, title, why, fix) in table.items()
}
_FOREIGN = {PluginKind.IMAGE: CLUSTER_CODES, PluginKind.CLUSTER: IMAGE_CODES}


def checks_for(kind: PluginKind) -> tuple[Check, ...]:
    """Return the checks that apply to plugins of *kind*."""
    return tuple(check for code, check in CHECKS.items() if code not in _FOREIGN[kind])
