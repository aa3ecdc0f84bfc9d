"""Decode one kubeconfig file as client-go does, with the positions of its entries and problems."""

from __future__ import annotations

from collections.abc import Iterable

from keyferry._core.documents import Document, read_yaml
from keyferry._core.paths import Path, format_path
from keyferry._core.values import Value, field, replace
from keyferry.api.codec import Refused, kubernetes_failure, place_problem, read_typed
from keyferry.api.kubeconfig.v1 import API_VERSION, KIND, SECTIONS, Kubeconfig, read_kubeconfig
from keyferry.api.wire import Reader
from keyferry.clusters.kubeconfig.trust import UNJUDGED
from keyferry.errors import Kind, Problem

__all__ = ["KubeconfigFile", "decode_file", "place", "refuse_file"]


class KubeconfigFile(Value):
    """One kubeconfig file: its path as given, its content, and the problems that client-go reports.

    ``untrusted`` states who else could have written the file; it is empty if nobody could.
    """

    path: str
    document: Document | None
    config: Kubeconfig
    problems: tuple[Problem, ...] = ()
    kubernetes_text: str = field(default="", repr=False)  # may quote the whole file
    kind: Kind | None = None
    untrusted: str = UNJUDGED

    def find(self, section: str, name: str) -> Path:
        """Return the path of the entry *name*, or of its section if there is no such entry."""
        value = self.document.value if self.document else None
        entries = value.get(section) if isinstance(value, dict) else None
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and (entry.get("name") or "") == name:
                return (section, index)
        return (section,)

    def problem(self, at: Path, problem: Problem) -> Problem:
        """Return *problem* with the position of the path *at* in this file."""
        return place_problem(problem, self.path, self.document, at, format_path(at))


def place(
    files: Iterable[KubeconfigFile], origin: str, entry: tuple[str, str], at: Path, problem: Problem
) -> Problem:
    """Return *problem* with the position of the path *at* inside *entry*, a section and name, of the file *origin*."""
    section, name = entry
    for file in files:
        if file.path == origin:
            return file.problem((*file.find(section, name), SECTIONS[section], *at), problem)
    return problem.changed(path=format_path((section, name, *at)))


def decode_file(path: str, data: bytes) -> KubeconfigFile:
    """Decode one kubeconfig; problems are part of the result."""
    read = read_typed(path, data, lambda content: read_yaml(content, quoting=True))
    if isinstance(read, Refused):
        return refuse_file(path, read.problem, read.document)
    file = KubeconfigFile(path, read.document, Kubeconfig())
    foreign = _judge_type(read.api_version, read.kind, data)
    if foreign is not None:
        at: Path = (foreign.path,) if foreign.path else ()
        return refuse_file(path, file.problem(at, foreign), read.document)
    return _decode_config(file, read.document)


def refuse_file(path: str, problem: Problem, document: Document | None = None) -> KubeconfigFile:
    """Return the result for a file that is not a kubeconfig, because of *problem*."""
    text = _loading_text(path, problem)
    return KubeconfigFile(path, document, Kubeconfig(), (problem,), text, problem.kind)


def _loading_text(path: str, problem: Problem) -> str:
    return f'error loading config file "{path}": {problem.kubernetes_text}'


def _judge_type(api_version: str, kind: str, data: bytes) -> Problem | None:
    """Return client-go's problem with a document that is not a v1 Config; missing fields default to v1 Config."""
    if api_version.count("/") > 1:
        text = f"unexpected GroupVersion string: {api_version}"
        message = f"{api_version!r} has more than one '/'"
        return Problem("apiVersion", message, kubernetes_text=text, kind=Kind.GROUP_VERSION)
    group, _, version = api_version.rpartition("/")
    if group and not version:
        text = f"Object 'apiVersion' is missing in '{data.decode('utf-8', 'replace')}'"
        message = f"{api_version!r} has no version, expected {API_VERSION!r}"
        return Problem("apiVersion", message, kubernetes_text=text, kind=Kind.MISSING_API_VERSION)
    shown = f"{group}/{version}" if group else version or API_VERSION
    if (shown, kind or KIND) == (API_VERSION, KIND):
        return None
    at, found, expected = (
        ("kind", kind, KIND) if kind not in ("", KIND) else ("apiVersion", shown, API_VERSION)
    )
    text = f'no kind "{kind or KIND}" is registered for version "{shown}" in scheme "<scheme>"'
    message = f"found {found!r}, expected {expected!r}"
    return Problem(at, message, kubernetes_text=text, kind=Kind.UNKNOWN_TYPE)


def _decode_config(file: KubeconfigFile, document: Document) -> KubeconfigFile:
    reader = Reader(sort_keys=True, lenient=True)
    config = _with_origin(read_kubeconfig(document.value, reader), file.path)
    failure = kubernetes_failure(reader.problems)
    if failure is None:
        return replace(file, config=config)
    problems = tuple(file.problem(at, problem) for at, problem in reader.problems)
    text = _loading_text(file.path, failure)
    return KubeconfigFile(file.path, document, config, problems, text, failure.kind)


def _with_origin(config: Kubeconfig, origin: str) -> Kubeconfig:
    return replace(
        config,
        clusters={name: replace(item, origin=origin) for name, item in config.clusters.items()},
        users={name: replace(item, origin=origin) for name, item in config.users.items()},
        contexts={name: replace(item, origin=origin) for name, item in config.contexts.items()},
    )
