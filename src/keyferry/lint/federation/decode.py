"""Read a FederationConfig, in YAML or JSON, with every problem for which the plugin refuses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from keyferry._core.documents import Document, DocumentFormat, read_document
from keyferry._core.paths import Path, format_path
from keyferry._core.values import Value, field
from keyferry.api.federation.rules import check_config, complete_rule, is_cluster_audience
from keyferry.api.federation.v1alpha1 import FederationConfig, SubjectSource, read_config
from keyferry.api.wire import Reader
from keyferry.errors import Detail, DocumentError, Kind, Problem

__all__ = ["FederationFile", "decode_federation", "interpret_federation", "kubelet_audiences"]

_SYNTAX, _TYPE, _UNKNOWN, _REPEATED, _MISFIT = "KF601", "KF602", "KF603", "KF604", "KF605"
_NO_RULES, _SOURCE, _SUBJECT, _CLUSTER = "KF606", "KF608", "KF609", "KF610"
_OF_RULES: Mapping[str, str] = {
    "registries": "KF607",
    "preset": _SOURCE,
    "subject": _SUBJECT,
    "params": "KF611",
    "calls": "KF612",
    "credentials": "KF612",
    "lifetime": "KF612",
    "fromAnnotations": "KF612",
    "cacheKeyType": "KF613",
    "caFile": "KF613",
}


class FederationFile(Value):
    """A config, as far as it can be read, and the problems for which the plugin refuses it."""

    path: str
    data: bytes = field(repr=False)
    document: Document | None
    config: FederationConfig
    problems: tuple[Problem, ...] = ()

    @property
    def is_json(self) -> bool:
        """Whether the plugin can read it as it is."""
        return self.document is not None and self.document.format is DocumentFormat.JSON

    def place(self, at: Path, message: str, code: str, detail: Detail = Detail.NONE) -> Problem:
        """Return a problem at a path of this file."""
        position = self.document.position(at) if self.document else None
        line, column = (position.line, position.column) if position else (None, None)
        shown = format_path(at)
        return Problem(shown, message, code=code, detail=detail, file=self.path, line=line, column=column)


def decode_federation(path: str, data: bytes) -> FederationFile:
    """Decode the content of *path* as strictly as the plugin."""
    try:
        document = read_document(data)
    except DocumentError as error:
        problem = Problem("", error.message, code=_SYNTAX, file=path, line=error.line, column=error.column)
        return FederationFile(
            path=path, data=data, document=None, config=FederationConfig(), problems=(problem,)
        )
    duplicates = tuple(each.path for each in document.duplicates)
    config, found = interpret_federation(document.value, duplicates)
    file = FederationFile(path=path, data=data, document=document, config=config)
    problems = tuple(
        file.place(at, problem.message, _code_of(at, problem, config), problem.detail)
        for at, problem in found
    )
    return FederationFile(path=path, data=data, document=document, config=config, problems=problems)


def interpret_federation(
    value: object, duplicates: tuple[Path, ...] = ()
) -> tuple[FederationConfig, list[tuple[Path, Problem]]]:
    """Return the config in a document and all of its problems; what only follows from another one is left out."""
    form, meaning = Reader(duplicates), Reader()
    config = read_config(value, form)
    check_config(config, meaning)
    causes = [path for path, _ in form.problems]
    return config, [*form.problems, *_without_effects(meaning.problems, causes)]


def kubelet_audiences(config: FederationConfig) -> tuple[str, ...]:
    """Return the audiences for which a kubelet requests the tokens that the rules take, each once."""
    subjects = (complete_rule(rule).subject for rule in config.rules)
    taken = (each.audience for each in subjects if each.source is SubjectSource.KUBELET and each.audience)
    return tuple(dict.fromkeys(taken))


def _without_effects(
    problems: list[tuple[Path, Problem]], causes: list[Path]
) -> Iterator[tuple[Path, Problem]]:
    """Yield the problems that are not above or below a value that could not be read."""
    for path, problem in problems:
        if not any(path[: len(cause)] == cause[: len(path)] for cause in causes):
            yield path, problem


def _code_of(at: Path, problem: Problem, config: FederationConfig) -> str:
    if problem.kind is Kind.STRICT:
        return _REPEATED if problem.detail is Detail.REPEATED_FIELD else _UNKNOWN
    if problem.kind in (Kind.WRONG_TYPE, Kind.DURATION):
        return _MISFIT
    if at[:1] != ("rules",):
        return _TYPE
    if len(at) == 1:
        return _NO_RULES
    if at[2:] == ("subject", "audience") and _is_for_the_cluster(config, at[1]):
        return _CLUSTER
    return _OF_RULES.get(str(at[2]), _SOURCE) if len(at) > 2 else _SOURCE


def _is_for_the_cluster(config: FederationConfig, number: str | int) -> bool:
    subject = complete_rule(config.rules[int(number)]).subject
    return bool(subject.audience) and is_cluster_audience(subject.audience, subject.issuer)
