"""The stable codes of the problems that lint finds, by the kind of the file."""

from __future__ import annotations

from keyferry._core.severity import Severity
from keyferry._core.values import Value
from keyferry.lint.codes.agent import REFUSED_AGENT, SUSPECT_AGENT
from keyferry.lint.codes.clusters import REFUSED_KUBECONFIG, SUSPECT_KUBECONFIG
from keyferry.lint.codes.comments import COMMENTS
from keyferry.lint.codes.federation import REFUSED_FEDERATION, SUSPECT_FEDERATION
from keyferry.lint.codes.kubelet import REFUSED_KUBELET, SUSPECT_KUBELET
from keyferry.lint.codes.kuberc import REFUSED_KUBERC, SUSPECT_KUBERC
from keyferry.lint.codes.records import REFUSED_RECORDS, SUSPECT_RECORDS
from keyferry.lint.codes.refused import REFUSED
from keyferry.lint.codes.suspect import SUSPECT

__all__ = ["CODES", "ON_THIS_MACHINE", "Code"]

# Valid and often intended, but possibly a mistake.
_INFO = frozenset(
    {
        "KF050",
        "KF162",
        "KF166",
        "KF167",
        "KF178",
        "KF179",
        "KF184",
        "KF193",
        "KF254",
        "KF255",
        "KF273",
        "KF275",
        "KF360",
        "KF362",
        "KF363",
        "KF365",
    }
    | {"KF422", "KF425", "KF429", "KF655", "KF657", "KF659", "KF676", "KF678"}
)
# Findings that depend on this machine: absent files and programs, owners, permissions.
ON_THIS_MACHINE = frozenset(
    {"KF140", "KF141", "KF142", "KF182", "KF190", "KF191", "KF192", "KF193"}
    | {"KF219", "KF275", "KF276", "KF283", "KF290", "KF291", "KF353", "KF362", "KF364"}
    | {"KF655", "KF656", "KF678"}
)
_ERRORS = (
    REFUSED
    | REFUSED_KUBECONFIG
    | REFUSED_KUBERC
    | REFUSED_RECORDS
    | REFUSED_AGENT
    | REFUSED_FEDERATION
    | REFUSED_KUBELET
)
_TABLES = (
    COMMENTS,
    *(REFUSED, SUSPECT, REFUSED_KUBECONFIG, SUSPECT_KUBECONFIG),
    *(REFUSED_KUBERC, SUSPECT_KUBERC, REFUSED_RECORDS, SUSPECT_RECORDS),
    *(REFUSED_AGENT, SUSPECT_AGENT),
    *(REFUSED_FEDERATION, SUSPECT_FEDERATION),
    *(REFUSED_KUBELET, SUSPECT_KUBELET),
)
# The Kubernetes versions to which a code applies, if not to all.
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
    "KF228": "v1alpha1 was removed in 1.24",
    "KF273": "v1 since 1.22",
    "KF365": "name in 1.35, command since 1.36",
    "KF422": "v1beta1 since 1.35",
    "KF710": "1.34 to 1.36; the gate is off by default in 1.34",
}


class Code(Value):
    """One kind of finding: its severity, the reason, the correction, and the versions of Kubernetes it applies to."""

    code: str
    severity: Severity
    title: str
    why: str
    fix: str
    kubernetes: str = ""


def _severity(code: str) -> Severity:
    if code in _ERRORS:
        return Severity.ERROR
    return Severity.INFO if code in _INFO else Severity.WARNING


CODES: dict[str, Code] = {
    code: Code(
        code=code, severity=_severity(code), title=title, why=why, fix=fix, kubernetes=_VERSIONS.get(code, "")
    )
    for table in _TABLES
    for code, (title, why, fix) in table.items()
}
