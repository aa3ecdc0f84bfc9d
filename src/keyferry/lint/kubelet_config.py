"""Lint a KubeletConfiguration: only the fields that affect pulls are checked."""

from __future__ import annotations

from keyferry._core.documents import Document, read_document
from keyferry.api.typed import Refused, describe_empty, place_problem, read_typed
from keyferry.errors import Problem
from keyferry.images.node.settings import (
    KUBELET_CONFIG_API_VERSION,
    KUBELET_CONFIG_KIND,
    UNKNOWN_FIELDS,
    describe_unknown_field,
)
from keyferry.lint.report import FileKind, LintReport, make_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["lint_kubelet_config"]

_SYNTAX, _FOREIGN, _IGNORED = "KF701", "KF702", "KF750"


def lint_kubelet_config(path: str, data: bytes) -> LintReport:
    """Return the problems of the KubeletConfiguration or drop-in *path*, whose content is *data*."""
    return make_report(FileKind.KUBELET_CONFIG, path, _check(path, data), "")


def _check(path: str, data: bytes) -> Iterator[Problem]:
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


def _unknown_fields(path: str, document: Document) -> Iterator[Problem]:
    for name in UNKNOWN_FIELDS:
        if (name,) in document.positions:
            problem = Problem(name, describe_unknown_field(name), code=_IGNORED)
            yield place_problem(problem, path, document, (name,))
