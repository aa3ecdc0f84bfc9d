"""What every linter is made of: codes, the rules that report them, and findings.

A code stands beside its rule, in the module of its kind of file below ``keyferry.lint.kinds``. It has a free number of
that kind's hundred, which several modules may share: ``keyferry lint --list`` shows those that are taken. In KF1, KF2,
KF3 and KF6, the numbers below 50 are for errors. The catalogue, the docs and ``--list`` find the code by themselves::

    KF176 = Code(
        "KF176",
        Severity.WARNING,
        "credentials are not cached",
        why="with '0s' the plugin is run for every pull",
        fix="set for example '10m'",
    )

    @provider_rule(KF176)
    def cache_duration(provider: CredentialProvider) -> Iterator[Finding]:
        if provider.default_cache_duration_ns == 0:
            yield KF176.at("defaultCacheDuration", message="the plugin is run for every pull")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from keyferry._core.documents import Document
from keyferry._core.paths import Path, format_path
from keyferry._core.severity import Severity
from keyferry._core.type_forms import Generic, T
from keyferry._core.values import Value, field, replace
from keyferry.errors import Detail, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Rule: TypeAlias = Callable[[T], Iterator["Finding"]]

# Every code of the modules that are loaded; ``keyferry.lint.catalogue`` loads all of them.
_KNOWN: dict[str, Code] = {}


class Finding(Value):
    """One problem of a config; ``kubernetes_text`` is empty if Kubernetes reports no error.

    ``versions`` are the Kubernetes versions that have the problem, if others that were asked for do not. ``at`` is the
    path in the subject of the rule, until the finding is placed in a file.
    """

    code: str
    severity: Severity
    message: str
    path: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None
    kubernetes: str = ""
    kubernetes_text: str = field(default="", repr=False)
    versions: tuple[str, ...] = ()
    detail: Detail = Detail.NONE
    at: Path = field(default=(), repr=False)

    def placed(self, file: str, document: Document | None, inside: Path = ()) -> Finding:
        """Return this finding at its position in a file; *inside* is the path of the rule's subject there."""
        at = (*inside, *self.at)
        position = document.position(at) if document else None
        return replace(
            self,
            path=format_path(at),
            file=file,
            line=position.line if position else None,
            column=position.column if position else None,
            at=(),
        )

    def as_problem(self) -> Problem:
        """Return this finding as a problem, for an error."""
        return Problem(
            self.path,
            self.message,
            code=self.code,
            kubernetes_text=self.kubernetes_text,
            file=self.file,
            line=self.line,
            column=self.column,
        )

    def __str__(self) -> str:
        return str(self.as_problem())


class Code(Value):
    """One kind of finding: its severity, the reason and the correction.

    *kubernetes* names the versions that it applies to, if not to all. *on_this_machine* tells that the finding depends
    on this machine: absent files and programs, owners, permissions. *of_name* tells that it is about the name of a
    field, whatever its value is.
    """

    code: str
    severity: Severity
    title: str
    why: str
    fix: str
    kubernetes: str = ""
    on_this_machine: bool = False
    of_name: bool = False

    def __init__(
        self,
        code: str,
        severity: Severity,
        title: str,
        *,
        why: str,
        fix: str,
        kubernetes: str = "",
        on_this_machine: bool = False,
        of_name: bool = False,
    ) -> None:
        if code in _KNOWN:
            raise ValueError(f"{code} is taken: {_KNOWN[code].title!r}")
        super().__init__(
            code=code,
            severity=severity,
            title=title,
            why=why,
            fix=fix,
            kubernetes=kubernetes,
            on_this_machine=on_this_machine,
            of_name=of_name,
        )
        _KNOWN[code] = self

    def at(
        self, *at: str | int, message: str, kubernetes_text: str = "", detail: Detail = Detail.NONE
    ) -> Finding:
        """Return a finding at a path of the rule's subject.

        *kubernetes_text* is Kubernetes' message for an error, if it differs from ours.
        """
        return Finding(
            code=self.code,
            severity=self.severity,
            message=message,
            path=format_path(at),
            kubernetes=self.kubernetes,
            kubernetes_text=(kubernetes_text or message) if self.severity is Severity.ERROR else "",
            detail=detail,
            at=at,
        )

    def of_file(self, file: str, message: str, line: int | None = None, column: int | None = None) -> Finding:
        """Return a finding about a file, not about a value in it."""
        return replace(self.at(message=message), file=file, line=line, column=column)


class Rules(Generic[T]):
    """The rules about one kind of subject. They run in the order in which they are written.

    An instance decorates the functions: each takes the subject and yields findings of the codes that it is given.
    """

    def __init__(self) -> None:
        self._rules: list[tuple[Rule[T], tuple[Code, ...]]] = []

    def __call__(self, *codes: Code) -> Callable[[Rule[T]], Rule[T]]:
        """Return the decorator of a rule that reports *codes*."""

        def add(rule: Rule[T]) -> Rule[T]:
            self._rules.append((rule, codes))
            return rule

        return add

    def check(self, subject: T) -> Iterator[Finding]:
        """Yield what the rules find in *subject*."""
        for rule, codes in self._rules:
            for finding in rule(subject):
                assert any(finding.code == code.code for code in codes), (rule, finding)  # noqa: S101 - a wrong rule
                yield finding


def find_code(name: str) -> Code:
    """Return a code of a module that is loaded, such as that of a finding."""
    return _KNOWN[name]


def finding_of(problem: Problem) -> Finding:
    """Return the finding for a problem that the code which uses such files has found, by its code."""
    code = find_code(problem.code)
    return Finding(
        code=problem.code,
        severity=code.severity,
        message=problem.message,
        path=problem.path,
        file=problem.file,
        line=problem.line,
        column=problem.column,
        kubernetes=code.kubernetes,
        kubernetes_text=problem.kubernetes_text if code.severity is Severity.ERROR else "",
        detail=problem.detail,
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return each finding once, in the order of the files."""
    return tuple(sorted(dict.fromkeys(findings), key=_place))


def _place(finding: Finding) -> tuple[str, int, int, str]:
    return finding.file, finding.line or 0, finding.column or 0, finding.code
