"""Which problems are consequences of others, and which field an unknown field was probably meant to be."""

from __future__ import annotations

from keyferry.errors import Detail, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PROVIDER = ("name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env", "tokenAttributes")
_TOKEN = (
    "serviceAccountTokenAudience",
    "cacheType",
    "requireServiceAccount",
    "requiredServiceAccountAnnotationKeys",
    "optionalServiceAccountAnnotationKeys",
)
# Problems after which the decoded value differs from the value in the file.
_WRONG_TYPE = "KF109"
_UNREAD = (_WRONG_TYPE, "KF110")
_UNKNOWN = "KF107"
# Problems of a missing field.
_ABSENT = ("KF122", "KF123", "KF125", "KF131", "KF132", "KF137", "KF170")
_REFUSED_NAMES = ("KF111", "KF121")
_UNUSABLE, _NAMELESS = "KF142", "KF170"
_EXECUTABLE = ("KF141", _UNUSABLE, _NAMELESS)


def explain(problem: Problem) -> Problem:
    """Return *problem* with a hint at what was probably meant, if there is one."""
    hint = _hint(problem.path) if problem.code == _UNKNOWN else ""
    if problem.code == _WRONG_TYPE and problem.detail is Detail.SCALAR_FOR_TEXT:
        hint = "; put it in quotes"
    return problem.changed(message=f"{problem.message}{hint}")


class Causes:
    """Problems that may have other problems as consequences."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        found = tuple(problems)
        self._unread = _places(problem for problem in found if problem.code in _UNREAD)
        self._names = _places(problem for problem in found if problem.code in _REFUSED_NAMES)
        self._unusable = _places(problem for problem in found if problem.code == _UNUSABLE)
        self._misspelt = {
            (problem.file, _meant_path(problem.path)) for problem in found if problem.code == _UNKNOWN
        }

    def account_for(self, problem: Problem) -> bool:
        """Return whether *problem* is a consequence of one of these problems."""
        place = problem.file, problem.path
        path = problem.path
        ends = (at for at in range(len(path) + 1) if path[at : at + 1] in (".", "[", ""))
        if any((problem.file, path[:end]) in self._unread for end in ends):
            return True
        if problem.code in _ABSENT and place in self._misspelt:
            return True
        if problem.code == _NAMELESS and place in self._unusable:
            return True
        return problem.code in _EXECUTABLE and place in self._names

    def remove_from(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Return those of *problems* that are not consequences of these."""
        return (problem for problem in problems if not self.account_for(problem))


def respelt(path: str) -> str:
    """Return the field that an unknown one is but for case and separators, such as ``matchimages``; empty if none."""
    parent, _, name = path.rpartition(".")
    meant = _meant(parent, name)
    return meant if meant != name and meant.lower() == _squeeze(name) else ""


def _places(problems: Iterable[Problem]) -> frozenset[tuple[str, str]]:
    return frozenset((problem.file, problem.path) for problem in problems)


def _meant_path(path: str) -> str:
    parent, dot, name = path.rpartition(".")
    return parent + dot + _meant(parent, name)


def _hint(path: str) -> str:
    parent, _, name = path.rpartition(".")
    meant = _meant(parent, name)
    if meant == name:
        return f"; {name} belongs to apiVersion kubelet.config.k8s.io/v1, not to older ones"
    if meant:
        return f"; did you mean {meant!r}?"
    return f", expected one of {', '.join(_fields(parent))}"


def _meant(parent: str, name: str) -> str:
    from difflib import get_close_matches

    known = {field.lower(): field for field in _fields(parent)}
    close = get_close_matches(_squeeze(name), known, 1, 0.75)
    return known[close[0]] if close else ""


def _squeeze(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _fields(parent: str) -> tuple[str, ...]:
    if not parent:
        return "kind", "apiVersion", "providers"
    if ".env[" in parent:
        return "name", "value"
    return _TOKEN if parent.endswith(".tokenAttributes") else _PROVIDER
