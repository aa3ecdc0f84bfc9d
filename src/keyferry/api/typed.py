"""Read the content of a file as a document with a type, or as a problem with a position."""

from __future__ import annotations

from keyferry._core.documents import Document
from keyferry._core.paths import Path
from keyferry._core.values import Value
from keyferry.api.codec import WrongTypeError, interpret
from keyferry.errors import DocumentError, Kind, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Refused", "TypedDocument", "describe_empty", "place_problem", "read_typed"]


class TypedDocument(Value):
    """A document with its apiVersion and kind."""

    document: Document
    api_version: str
    kind: str


class Refused(Value):
    """The reason why text is not a document, or why the type of a document cannot be read."""

    problem: Problem
    document: Document | None = None


def read_typed(
    file: str,
    data: bytes,
    read: Callable[[bytes], Document],
    *,
    syntax_code: str = "",
    type_code: str = "",
    json_stage: str = "",
) -> TypedDocument | Refused:
    """Read *data*, the content of *file*, with *read*, and return the document with its type, or the problem.

    The codes are lint's codes for such problems; *json_stage* is the prefix of Kubernetes' text for invalid JSON.
    """
    try:
        document = read(data)
    except DocumentError as error:
        stage = json_stage if error.kind is Kind.JSON_SYNTAX else ""
        problem = Problem(
            "",
            error.message,
            code=syntax_code,
            kubernetes_text=stage + error.kubernetes_text,
            kind=error.kind,
            file=file,
            line=error.line,
            column=error.column,
        )
        return Refused(problem)
    try:
        return TypedDocument(document, *interpret(document.value))
    except WrongTypeError as error:
        problem = Problem(
            error.field,
            error.message,
            code=type_code,
            kubernetes_text=error.kubernetes_text,
            kind=Kind.WRONG_TYPE,
            detail=error.detail,
        )
        at: Path = (error.field,) if error.field else ()
        return Refused(place_problem(problem, file, document, at), document)


def describe_empty(data: bytes) -> str:
    """Return what to say of a file whose document is nothing, and whose content is *data*."""
    return "the file has nothing but comments" if data.strip() else "the file is empty"


def place_problem(
    problem: Problem, file: str, document: Document | None, at: Path, path: str | None = None
) -> Problem:
    """Return *problem* with the file and position of the path *at*, and with another *path* if one is given."""
    position = document.position(at) if document else None
    line, column = (position.line, position.column) if position else (None, None)
    return problem.placed(file, line, column, path)
