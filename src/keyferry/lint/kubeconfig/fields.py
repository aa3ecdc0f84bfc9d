"""Parts of a kubeconfig that client-go silently ignores: fields, keys, documents, and unused entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from keyferry._core.paths import Path, format_path
from keyferry.api.kubeconfig.v1 import read_kubeconfig
from keyferry.api.wire import Reader
from keyferry.clusters.kubeconfig.files import KubeconfigFile
from keyferry.errors import Kind, Problem
from keyferry.lint.files import second_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "NotingReader",
    "check_fields",
    "entry_indices",
    "later_document",
    "repeated_keys",
    "unknown_fields",
]

_UNKNOWN, _REPEATED, _LATER = "KF250", "KF251", "KF252"
_NO_CURRENT, _FRAGMENT, _UNUSED = "KF253", "KF254", "KF255"


class NotingReader(Reader):
    """A strict reader that records the known fields of each object."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        super().__init__(sort_keys=True)
        self.known: dict[Path, tuple[str, ...]] = {}

    def struct(self, value: object, path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Record the names of the fields, then read them."""
        self.known[path] = tuple(fields)
        return super().struct(value, path, fields)


def check_fields(file: KubeconfigFile, data: bytes) -> Iterator[Problem]:
    """Yield the problems of *file* with parts that have no effect, or that are missing without an error."""
    if file.document is None:
        return
    # The file is read again by a strict reader; refusals are reported elsewhere.
    reader = NotingReader()
    read_kubeconfig(file.document.value, reader)
    for at, message in unknown_fields(reader, "client-go silently ignores it"):
        yield file.problem(at, Problem("", message, code=_UNKNOWN))
    yield from repeated_keys(file, _REPEATED)
    yield from later_document(file.path, data, _LATER)
    if not file.problems:
        yield from _check_contexts(file)


def unknown_fields(reader: NotingReader, consequence: str) -> Iterator[tuple[Path, str]]:
    """Yield the unknown fields that a reader found, each with the field that was probably intended."""
    for at, problem in reader.problems:
        if problem.kind is Kind.STRICT:
            known = reader.known.get(at[:-1], ())
            yield at, f"unknown field: {consequence}{_hint(str(at[-1]), known)}"


def _hint(name: str, known: tuple[str, ...]) -> str:
    squeezed = {_squeeze(field): field for field in known}
    close = get_close_matches(_squeeze(name), squeezed, 1, 0.75)
    if not close:
        return f"; expected one of {', '.join(known)}"
    return f"; did you mean {squeezed[close[0]]!r}?"


def _squeeze(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def repeated_keys(file: KubeconfigFile, code: str) -> Iterator[Problem]:
    """Yield the keys that a document has more than once."""
    for each in file.document.duplicates if file.document else ():
        message = (
            f"the key is given more than once, first in line {each.first.line}; "
            "the last one is silently used ('<<' also adds keys)"
        )
        yield Problem(
            format_path(each.path),
            message,
            code=code,
            file=file.path,
            line=each.position.line,
            column=each.position.column,
        )


def later_document(path: str, data: bytes, code: str) -> Iterator[Problem]:
    """Yield a problem at the start of the second YAML document, if there is one."""
    start = second_document(data)
    if start is not None:
        message = "only the first YAML document is read: everything from this '---' on is ignored"
        yield Problem("", message, code=code, file=path, line=start[0], column=start[1])


def _check_contexts(file: KubeconfigFile) -> Iterator[Problem]:
    config = file.config
    if config.is_empty:
        return  # reported as a refusal
    if not config.contexts:
        message = (
            "there are no contexts, so this file can only be used together with others (KUBECONFIG); "
            "with this file alone, kubectl reports that no configuration has been provided"
        )
        yield file.problem((), Problem("", message, code=_FRAGMENT))
        return
    if not config.current_context:
        message = (
            "current-context is not set: without --context kubectl tries http://localhost:8080 or fails; "
            f"set it to one of {', '.join(map(repr, config.contexts))}"
        )
        yield file.problem((), Problem("", message, code=_NO_CURRENT))
    contexts = config.contexts.values()
    yield from _unused(file, "clusters", config.clusters, {context.cluster for context in contexts})
    yield from _unused(file, "users", config.users, {context.user for context in contexts})


def entry_indices(file: KubeconfigFile, section: str) -> dict[str, int]:
    """Return the indices of a section's entries by name; of two with one name, the last one's."""
    value = file.document.value if file.document else None
    entries = value.get(section) if isinstance(value, dict) else None
    listed = enumerate(entries if isinstance(entries, list) else ())
    return {str(item.get("name") or ""): index for index, item in listed if isinstance(item, dict)}


def _unused(
    file: KubeconfigFile, section: str, entries: Mapping[str, object], named: set[str]
) -> Iterator[Problem]:
    indices = entry_indices(file, section)
    for name in entries:
        index = indices.get(name, 0)
        if name not in named:
            message = (
                f"no context of this file names {section.removesuffix('s')} {name!r}; remove it, or use it"
            )
            yield file.problem((section, index), Problem("", message, code=_UNUSED))
