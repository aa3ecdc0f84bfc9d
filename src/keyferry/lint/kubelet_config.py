"""Lint a KubeletConfiguration: only the fields that affect pulls are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from keyferry._core.documents import Document, read_document
from keyferry._core.values import replace
from keyferry.api.codec import Refused, describe_empty, place_problem, read_typed
from keyferry.errors import Problem
from keyferry.images.node.settings import (
    KUBELET_CONFIG_API_VERSION,
    KUBELET_CONFIG_KIND,
    UNKNOWN_FIELDS,
    describe_unknown_field,
)
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.versions import LATEST, MAX_PARALLEL_PULLS, panics_beyond, rules_for

__all__ = ["describe_panic", "lint_kubelet_config"]

_SYNTAX, _FOREIGN, _PANIC, _IGNORED = "KF701", "KF702", "KF710", "KF750"
_PARALLEL_PULLS = "maxParallelImagePulls"


def lint_kubelet_config(
    path: str, data: bytes, kubernetes: str = LATEST, gates: Mapping[str, bool] = MappingProxyType({})
) -> LintReport:
    """Return the problems of the KubeletConfiguration or drop-in *path*, whose content is *data*.

    *gates* are the feature gates of the kubelet's flags, which override those of the file.
    """
    report = make_report(FileKind.KUBELET_CONFIG, path, _check(path, data, kubernetes, gates), "")
    return replace(report, kubernetes=rules_for(kubernetes, {}).version)


def describe_panic(found: int) -> str:
    """Return what happens with this ``maxParallelImagePulls``, and the cure."""
    return (
        f"found {found}: a kubelet of 1.34 to 1.36 that keeps pull records panics above {MAX_PARALLEL_PULLS} "
        f"(kubernetes#138937); set {MAX_PARALLEL_PULLS} or less, or upgrade the kubelet"
    )


def _check(path: str, data: bytes, kubernetes: str, gates: Mapping[str, bool]) -> Iterator[Problem]:
    read = read_typed(path, data, read_document, syntax_code=_SYNTAX, type_code=_FOREIGN)
    if isinstance(read, Refused):
        yield read.problem
        return
    document = read.document
    if (read.api_version, read.kind) != (KUBELET_CONFIG_API_VERSION, KUBELET_CONFIG_KIND):
        found = f"found apiVersion {read.api_version!r} and kind {read.kind!r}"
        if document.value is None:
            found = describe_empty(data)
        expected = f"expected {KUBELET_CONFIG_API_VERSION!r} and {KUBELET_CONFIG_KIND!r}"
        yield place_problem(Problem("", f"{found}, {expected}", code=_FOREIGN), path, document, ())
        return
    yield from _unknown_fields(path, document)
    yield from _parallel_pulls(path, document, kubernetes, gates)


def _unknown_fields(path: str, document: Document) -> Iterator[Problem]:
    for name in UNKNOWN_FIELDS:
        if (name,) in document.positions:
            problem = Problem(name, describe_unknown_field(name), code=_IGNORED)
            yield place_problem(problem, path, document, (name,))


def _parallel_pulls(
    path: str, document: Document, kubernetes: str, gates: Mapping[str, bool]
) -> Iterator[Problem]:
    fields = document.value if isinstance(document.value, dict) else {}
    found, own = fields.get(_PARALLEL_PULLS), fields.get("featureGates")
    if type(found) is not int or found <= MAX_PARALLEL_PULLS:
        return
    if panics_beyond(kubernetes, {**(own if isinstance(own, dict) else {}), **gates}):
        problem = Problem(_PARALLEL_PULLS, describe_panic(found), code=_PANIC)
        yield place_problem(problem, path, document, (_PARALLEL_PULLS,))
