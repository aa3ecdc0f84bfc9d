"""The stable codes of what can be wrong with a provider config, and what to say about each."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from keyferry.lint.codes_refused import REFUSED
from keyferry.lint.codes_suspect import SUSPECT

__all__ = ["CODES", "SEVERITIES", "Code", "Severity"]

Severity: TypeAlias = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

_WARNING: Severity = "warning"
# Legal, often meant, and still worth a look.
_INFO = frozenset({"KF162", "KF166", "KF167", "KF193"})
# The Kubernetes versions a code matters to, where not to all.
_VERSIONS = {
    "KF112": "before 1.34",
    "KF130": "since 1.33; the gate is off by default in 1.33",
    "KF131": "since 1.33",
    "KF132": "since 1.33",
    "KF133": "since 1.33",
    "KF134": "since 1.33",
    "KF135": "since 1.33",
    "KF136": "since 1.33",
    "KF137": "since 1.34",
    "KF138": "before 1.34",
    "KF178": "v1 since 1.26",
    "KF179": "v1 since 1.26",
    "KF181": "since 1.34",
}


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding: how bad it is, why it matters, what to do, and since which Kubernetes."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str
    kubernetes: str = ""


def _severity(code: str) -> Severity:
    if code in REFUSED:
        return "error"
    return "info" if code in _INFO else _WARNING


CODES: dict[str, Code] = {
    code: Code(code, _severity(code), title, why, fix, _VERSIONS.get(code, ""))
    for code, (title, why, fix) in (REFUSED | SUSPECT).items()
}
