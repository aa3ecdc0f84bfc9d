"""A linted file: its bytes and its document, read once, and what may be wrong with any file, whatever its kind."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping

from keyferry._core.documents import Document, read_document
from keyferry._core.paths import Path
from keyferry._core.values import Value, field
from keyferry.api.wire import Reader
from keyferry.clusters.kubeconfig.trust import UNJUDGED, why_untrusted
from keyferry.errors import DocumentError, EnvironmentProblem, Kind
from keyferry.lint.code import Code, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A config of thousands of providers has a tenth of it, and the time for a line grows faster than its length.
MAX_BYTES = 1 << 24


class SourceFile(Value):
    """The content of a linted file, and its document; *error* is why there is none."""

    path: str
    data: bytes = field(repr=False)
    document: Document | None = field(default=None, repr=False)
    error: DocumentError | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, path: str, data: bytes) -> SourceFile:
        """Return the file *path*, whose content is *data*."""
        try:
            return cls(path=path, data=data, document=read_document(data, quoting=True))
        except DocumentError as error:
            return cls(path=path, data=data, error=error)

    def read(self, data: bytes) -> Document:
        """Return the document of this file, as a reader of *data* does; raise DocumentError if there is none."""
        if data == self.data and self.document is not None:
            return self.document
        if data == self.data and self.error is not None:
            raise self.error
        return read_document(data, quoting=True)


def read_source(path: str) -> SourceFile | None:
    """Read a file, or something that can be read only once, such as a pipe.

    Return None for a directory and for a file that cannot be read, which the linter of provider configs reports. Raise
    EnvironmentProblem if there are more than MAX_BYTES.
    """
    if os.path.isdir(path):
        return None
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        return None
    if len(data) > MAX_BYTES:
        raise EnvironmentProblem(f"{path} is not linted: it has more than {MAX_BYTES >> 20} MiB")
    return SourceFile.parse(path, data)


def find_later_document(code: Code, path: str, data: bytes) -> Iterator[Finding]:
    """Yield a finding at the start of the second YAML document that is not empty, if there is one."""
    start = _second_document(data)
    if start is not None:
        message = "only the first YAML document is read: everything from this '---' on is ignored"
        yield code.of_file(path, message, *start)


def _second_document(data: bytes) -> tuple[int, int] | None:
    # A text with NULs is UTF-16.
    if b"---" not in data[1:] and b"\0" not in data:
        return None
    import yaml

    start, number = (1, 1), 0
    try:
        for event in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.DocumentStartEvent):
                mark, number = event.start_mark, number + 1
                start = (mark.line + 1, mark.column + 1) if mark else start
            elif number > 1 and isinstance(event, yaml.NodeEvent):
                is_empty = isinstance(event, yaml.ScalarEvent) and not event.value and not event.style
                if not is_empty:
                    return start
    except yaml.YAMLError:
        # The kubelet does not parse the later documents, so it ignores them even if they are invalid.
        return start if number > 1 else None
    return None


def who_writes(mode: int) -> str:
    """Return who can write a file of this mode besides its owner; empty if nobody can."""
    if mode & stat.S_IWOTH:
        return "everybody"
    return "its group" if mode & stat.S_IWGRP else ""


def find_writers(code: Code, path: str, consequence: str) -> Iterator[Finding]:
    """Yield who besides its user could have written *path*, by the rule with which keyferry trusts a file."""
    try:
        why = why_untrusted(path, os.stat(path))
    except (OSError, ValueError):
        why = UNJUDGED
    if why:
        message = (
            f"{why}: other users can change this file {consequence}; keep it in a folder that only you or root can "
            f"write, and make it yours with chown and chmod go-w {path}"
        )
        yield code.of_file(path, message)


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


def find_unknown_fields(code: Code, reader: NotingReader, consequence: str) -> Iterator[Finding]:
    """Yield the unknown fields that a reader found, each with the field that was probably intended."""
    for at, problem in reader.problems:
        if problem.kind is Kind.STRICT:
            hint = _guess_field(str(at[-1]), reader.known.get(at[:-1], ()))
            yield code.at(*at, message=f"unknown field: {consequence}{hint}")


def _guess_field(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    squeezed = {_squeeze(field): field for field in known}
    close = get_close_matches(_squeeze(name), squeezed, 1, 0.75)
    if not close:
        return f"; expected one of {', '.join(known)}"
    return f"; did you mean {squeezed[close[0]]!r}?"


def _squeeze(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
