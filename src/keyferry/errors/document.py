"""Problems of a document, with their positions."""

from __future__ import annotations

from enum import StrEnum

from keyferry.errors.kinds import KeyferryError, Kind

__all__ = ["ConfigError", "Detail", "KubeconfigError", "Problem"]


class Detail(StrEnum):
    """The exact problem of a value or field, where its kind alone is not specific enough."""

    NONE = ""
    UNKNOWN_FIELD = "unknown-field"
    REPEATED_FIELD = "repeated-field"
    REPEATED_NAME = "repeated-name"  # of an entry in a list
    SCALAR_FOR_TEXT = "scalar-for-text"  # a number or boolean that lacks quotes
    NO_TEXT = "no-text"  # an object or array where text is expected


class Problem:
    """One problem of a document: its position, its message, and Kubernetes' message for it."""

    __slots__ = ("code", "column", "detail", "file", "kind", "kubernetes_text", "line", "message", "path")

    path: str
    message: str
    code: str
    kubernetes_text: str
    kind: Kind
    detail: Detail
    file: str
    line: int | None
    column: int | None

    def __init__(
        self,
        path: str,
        message: str,
        *,
        code: str = "",
        kubernetes_text: str = "",
        kind: Kind = Kind.OTHER,
        detail: Detail = Detail.NONE,
        file: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "path", path)
        put(self, "message", message)
        put(self, "code", code)
        put(self, "kubernetes_text", kubernetes_text or message)
        put(self, "kind", kind)
        put(self, "detail", detail)
        put(self, "file", file)
        put(self, "line", line)
        put(self, "column", column)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Problem is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Problem is frozen: cannot delete {name!r}")

    def changed(self, **changes: object) -> Problem:
        """Return a copy of this problem with *changes* applied to its fields."""
        fields: dict[str, object] = dict(zip(_FIELDS, self._values(), strict=True)) | changes
        return _make_problem(**fields)

    def placed(self, file: str, line: int | None, column: int | None, path: str | None = None) -> Problem:
        """Return a copy of this problem at a position in a file, with another *path* if one is given."""
        return self.changed(path=self.path if path is None else path, file=file, line=line, column=column)

    @property
    def place(self) -> tuple[str, int, int, str]:
        """A sort key that puts problems in the order of their positions in the files."""
        return self.file, self.line or 0, self.column or 0, self.code

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in _FIELDS)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_problem, self._values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"Problem({str(self)!r})"

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part not in ("", None))
        return ": ".join(part for part in (where, self.path, self.message) if part)


_FIELDS = Problem.__slots__


def _make_problem(**fields: object) -> Problem:
    return Problem(**fields)  # type: ignore[arg-type] # the fields of a problem


def _rebuild_problem(*values: object) -> Problem:
    return _make_problem(**dict(zip(_FIELDS, values, strict=True)))


class ConfigError(KeyferryError):
    """A configuration that Kubernetes would refuse; ``problems`` holds every problem found, by its position.

    The files keep the order in which they were given. If there is no other text, ``kubernetes_text`` is that of the
    problem that was given first. ``bin_dir`` is the folder of plugins that a provider config was loaded with, if known.
    """

    kind = Kind.CONFIG
    bin_dir: str = ""

    def __init__(self, problems: tuple[Problem, ...], kubernetes_text: str = "") -> None:
        super().__init__(problems, kubernetes_text)
        files = list(dict.fromkeys(problem.file for problem in problems))
        ordered = sorted(problems, key=lambda problem: (files.index(problem.file), *problem.place))
        self.problems = tuple(ordered)
        self.kubernetes_text = kubernetes_text or (problems[0].kubernetes_text if problems else "")

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class KubeconfigError(ConfigError):
    """A kubeconfig that client-go would refuse, or none at all."""
