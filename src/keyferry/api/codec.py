"""Read the type of a document before its content, and describe what Kubernetes' decoder reports about it.

``interpret`` reads the apiVersion and kind of a document and ignores the case of these names, as Go's decoder does.
The content is then read by the declarations of its kind, see ``keyferry.api.wire``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from keyferry._core.documents import Document
from keyferry._core.paths import Path
from keyferry._core.values import Value
from keyferry.api.meta import article, json_type
from keyferry.api.wire import detail_of
from keyferry.errors import DocumentError, Kind, Problem

# Kubernetes reports at most this many strict errors of one document.
MAX_STRICT_ERRORS = 100
# The anonymous type that Kubernetes decodes apiVersion and kind into, as Go prints it.
_TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
# Kinds that are registered in every version, with their fields.
UNVERSIONED = {
    "Status": ("metadata", "status", "message", "reason", "details", "code"),
    "APIVersions": ("versions", "serverAddressByClientCIDRs"),
    "APIGroupList": ("groups",),
    "APIGroup": ("name", "versions", "preferredVersion", "serverAddressByClientCIDRs"),
    "APIResourceList": ("groupVersion", "resources"),
}


class TypedDocument(Value):
    """A document with its apiVersion and kind."""

    document: Document
    api_version: str
    kind: str


class Refused(Value):
    """The reason why text is not a document, or why the type of a document cannot be read."""

    problem: Problem
    document: Document | None = None


class WrongTypeError(Exception):
    """apiVersion, kind or the whole document has the wrong JSON type.

    ``decoder_text`` is ``kubernetes_text`` without the prefix that names the stage.
    """

    def __init__(self, field: str, found: str, expected: str) -> None:
        super().__init__(field, found, expected)
        self.field = field
        self.message = f"found {article(found)}, expected {article(expected)}"
        into = f"struct field .{field} of type string" if field else f"value of type {_TYPE_META}"
        self.detail = detail_of(found, expected)
        self.decoder_text = f"json: cannot unmarshal {found} into Go {into}"
        self.kubernetes_text = f"couldn't get version/kind; json parse error: {self.decoder_text}"


def interpret(document: object) -> tuple[str, str]:
    """Return the apiVersion and kind of a document, each empty if it is missing.

    Raise :class:`WrongTypeError` where Kubernetes cannot read them.
    """
    if document is None:
        return "", ""
    if not isinstance(document, dict):
        raise WrongTypeError("", json_type(document), "object")
    found = {"apiversion": "", "kind": ""}
    for name, value in document.items():
        folded = name.lower()
        if folded in found and value is not None:
            if not isinstance(value, str):
                raise WrongTypeError(name, json_type(value), "string")
            found[folded] = value
    return found["apiversion"], found["kind"]


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
        return Refused(problem=problem)
    try:
        api_version, kind = interpret(document.value)
        return TypedDocument(document=document, api_version=api_version, kind=kind)
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
        return Refused(problem=place_problem(problem, file, document, at), document=document)


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


def kubernetes_failure(problems: list[tuple[Path, Problem]], yaml_duplicates: str = "") -> Problem | None:
    """Return the failure that Kubernetes reports: the first value of a wrong type, else all strict errors joined.

    *yaml_duplicates* is Kubernetes' text for repeated keys of a YAML document, which comes first.
    """
    for _, problem in problems:
        if problem.kind is not Kind.STRICT:
            return problem
    texts = list(dict.fromkeys(problem.kubernetes_text for _, problem in problems))[:MAX_STRICT_ERRORS]
    if yaml_duplicates:
        texts.insert(0, yaml_duplicates)
    if not texts:
        return None
    text = "strict decoding error: " + ", ".join(texts)
    return Problem("", "the document has unknown or repeated fields", kubernetes_text=text, kind=Kind.STRICT)


def aggregate(texts: Iterable[str]) -> str:
    """Return the text of several errors, joined as in Kubernetes."""
    distinct = list(dict.fromkeys(texts))
    return "".join(distinct) if len(distinct) <= 1 else f"[{', '.join(distinct)}]"


def shown_api_version(api_version: str) -> str:
    """Return an apiVersion for a message; one without Kubernetes' form is not shown, since it may be a secret."""
    if re.fullmatch(r"(?:[a-z.]{1,50}\.k8s\.io/)?v[0-9]{1,2}(?:(?:alpha|beta)[0-9]{1,2})?", api_version):
        return repr(api_version)
    return "something else" if api_version else "none"
