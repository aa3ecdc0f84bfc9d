"""All problems of a provider config that stop a kubelet, in its order, without those that follow from others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from keyferry._core.type_forms import Protocol
from keyferry._core.values import Value, field
from keyferry.errors import Detail, Problem
from keyferry.images.config.read import ReadConfig
from keyferry.images.config.validate import (
    check_bin_dir,
    check_executables,
    kubernetes_validation_text,
    validate,
)

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


class LoadStage(StrEnum):
    """The stages in which a kubelet loads a config."""

    BIN_DIR = "bin-dir"
    READ = "read"
    VALIDATE = "validate"
    REGISTER = "register"


class Refusals(Value):
    """The problems that stop a kubelet in one of its stages, and its text for them."""

    stage: LoadStage
    problems: tuple[Problem, ...] = ()
    kubernetes_text: str = field(default="", repr=False)  # may quote a whole file


def _is_checked(_: Problem) -> bool:
    return True


def find_refusals(
    config: ReadConfig,
    bin_dir: str | None,
    *,
    service_account_tokens: bool = True,
    is_checked: Callable[[Problem], bool] = _is_checked,
) -> Iterator[Refusals]:
    """Yield the problems of each stage, in the kubelet's order; the kubelet stops at the first stage with problems.

    Without *bin_dir*, plugins are not checked. *is_checked* returns whether the kubelet's version makes the
    check that found a problem.
    """
    missing = check_bin_dir(bin_dir) if bin_dir is not None else None
    yield (
        Refusals(stage=LoadStage.BIN_DIR, problems=(missing,), kubernetes_text=missing.kubernetes_text)
        if missing
        else Refusals(stage=LoadStage.BIN_DIR)
    )
    read = tuple(explain(problem) for problem in config.problems)
    yield Refusals(stage=LoadStage.READ, problems=read, kubernetes_text=config.kubernetes_text)
    # A file that cannot be read must not also be reported as a config without providers.
    found = (
        validate(config, service_account_tokens=service_account_tokens)
        if config.providers or not read
        else ()
    )
    invalid = tuple(Causes(read).remove_from(each for each in found if is_checked(each)))
    yield Refusals(
        stage=LoadStage.VALIDATE,
        problems=invalid,
        kubernetes_text=kubernetes_validation_text(invalid) if invalid else "",
    )
    if bin_dir is not None and missing is None:
        unusable = (problem for problem in check_executables(config, bin_dir) if problem is not None)
        kept = tuple(Causes((*read, *invalid)).remove_from(unusable))
        yield Refusals(
            stage=LoadStage.REGISTER, problems=kept, kubernetes_text=kept[0].kubernetes_text if kept else ""
        )


def explain(problem: Problem) -> Problem:
    """Return *problem* with a hint at what was probably meant, if there is one."""
    hint = _hint(problem.path) if problem.code == _UNKNOWN else ""
    if problem.code == _WRONG_TYPE and problem.detail is Detail.SCALAR_FOR_TEXT:
        hint = "; put it in quotes"
    return problem.changed(message=f"{problem.message}{hint}")


class Located(Protocol):
    """A problem, or what a linter found: its code, and its place."""

    @property
    def code(self) -> str:
        """The code of lint."""

    @property
    def file(self) -> str:
        """The file."""

    @property
    def path(self) -> str:
        """The path in the file."""


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

    def account_for(self, problem: Located) -> bool:
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
