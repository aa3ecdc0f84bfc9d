"""Read the kubeconfig files that kubectl reads, decode and merge them by its rules, with the origin of each entry."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from keyferry._core.documents import Document, read_yaml
from keyferry._core.gotext import go_strerror
from keyferry._core.paths import Path, format_path
from keyferry._core.values import Value, field, replace
from keyferry.api.codec import Refused, aggregate, kubernetes_failure, place_problem, read_typed
from keyferry.api.kubeconfig.v1 import (
    API_VERSION,
    KIND,
    SECTIONS,
    AuthInfo,
    Cluster,
    Kubeconfig,
    Preferences,
    read_kubeconfig,
)
from keyferry.api.wire import Reader
from keyferry.clusters.kubeconfig.trust import UNJUDGED, why_untrusted
from keyferry.errors import Kind, KubeconfigError, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _T = TypeVar("_T")

# Larger than any kubeconfig; the path may name a device or a pipe that never ends.
_MAX_FILE_BYTES = 64 << 20


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


class LoadedKubeconfig(Value):
    """The merged config, and the ``files`` that were read from ``paths``, except those that are ``missing``.

    If there are ``problems``, kubectl stops at this point.
    """

    config: Kubeconfig
    files: tuple[KubeconfigFile, ...] = ()
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    kubernetes_text: str = field(default="", repr=False)  # may quote a whole file

    def raise_for_problems(self) -> None:
        """Raise ConfigError with all problems of the files, if there are any."""
        if self.problems:
            raise KubeconfigError(self.problems, self.kubernetes_text)


def load_kubeconfig(
    explicit: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: str | None = None,
    cwd: str | None = None,
) -> LoadedKubeconfig:
    """Load the files that kubectl loads: *explicit*, else those in ``KUBECONFIG``, else ``~/.kube/config``.

    Missing files are ignored, except *explicit*. Raises ConfigError with the problems of all files.
    """
    loaded = read_kubeconfigs(explicit, environ=environ, home=home, cwd=cwd)
    loaded.raise_for_problems()
    return loaded


def read_kubeconfigs(
    explicit: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: str | None = None,
    cwd: str | None = None,
) -> LoadedKubeconfig:
    """Read the same files as `load_kubeconfig`; problems are part of the result."""
    environ = os.environ if environ is None else environ
    if not explicit:
        listed = environ.get("KUBECONFIG", "")
        if listed:
            paths = tuple(path for path in dict.fromkeys(listed.split(os.pathsep)) if path)
        else:
            folder = environ.get("HOME", "") if home is None else home
            paths = (_clean(os.path.join(folder, ".kube", "config")),)
        return _read_files(paths, cwd, warn=bool(listed))
    absent = _find_absent(explicit, cwd)
    if absent is None:
        return _read_files((explicit,), cwd, warn=False)
    return LoadedKubeconfig(
        config=Kubeconfig(),
        paths=(explicit,),
        missing=(explicit,),
        problems=(absent,),
        kubernetes_text=absent.kubernetes_text,
    )


def go_read_error(path: str, error: OSError | ValueError) -> str:
    """Return Go's error text for a file that cannot be read; Go can open a directory, but not read it."""
    step = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{step} {path}: {go_strerror(error)}"


def _find_absent(path: str, cwd: str | None) -> Problem | None:
    try:
        os.stat(_from(cwd, path))
    except FileNotFoundError as error:
        text = f"stat {path}: {go_strerror(error)}"
        return Problem("", "there is no such file", kubernetes_text=text, file=path)
    except (OSError, ValueError):
        pass  # reading the file gives a better error
    return None


def _read_files(paths: tuple[str, ...], cwd: str | None, *, warn: bool) -> LoadedKubeconfig:
    found = {path: _read_file(path, cwd) for path in paths}
    missing = tuple(path for path, file in found.items() if file is None)
    files = tuple(file for file in found.values() if file is not None)
    usable = [file.config for file in files if not file.problems]
    warned = warn and missing and not usable
    return LoadedKubeconfig(
        config=merge_configs(usable, cwd),
        files=files,
        warnings=(f"Config not found: {', '.join(missing)}",) if warned else (),
        paths=paths,
        missing=missing,
        problems=tuple(problem for file in files for problem in file.problems),
        kubernetes_text=aggregate(file.kubernetes_text for file in files if file.problems),
    )


def _read_file(path: str, cwd: str | None) -> KubeconfigFile | None:
    place = _from(cwd, path)
    try:
        with open(place, "rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
            untrusted = why_untrusted(place, os.fstat(stream.fileno()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        message = f"cannot be read: {go_strerror(error)}"
        return refuse_file(path, Problem("", message, kubernetes_text=go_read_error(path, error), file=path))
    if len(data) > _MAX_FILE_BYTES:
        return refuse_file(path, Problem("", f"the file is larger than {_MAX_FILE_BYTES} bytes", file=path))
    return replace(decode_file(path, data), untrusted=untrusted)


def merge_configs(configs: list[Kubeconfig], cwd: str | None) -> Kubeconfig:
    """Merge configs: the first entry of each name is used. Relative paths are made absolute with *cwd*."""
    clusters = _first_wins(config.clusters for config in configs)
    users = _first_wins(config.users for config in configs)
    none = Preferences()
    return Kubeconfig(
        clusters={name: _anchor_cluster(cluster, cwd) for name, cluster in clusters.items()},
        users={name: _anchor_user(user, cwd) for name, user in users.items()},
        contexts=_first_wins(config.contexts for config in configs),
        current_context=next((config.current_context for config in configs if config.current_context), ""),
        preferences=next((each.preferences for each in configs if each.preferences != none), none),
        extensions=_first_wins(config.extensions for config in configs),
    )


def _first_wins(maps: Iterable[Mapping[str, _T]]) -> dict[str, _T]:
    """Return all entries by name, each from the first file that has it; entries are not merged field by field."""
    merged: dict[str, _T] = {}
    for entries in maps:
        for name, entry in entries.items():
            merged.setdefault(name, entry)
    return merged


def _anchor_cluster(cluster: Cluster, cwd: str | None) -> Cluster:
    return replace(cluster, certificate_authority=_anchor(cluster.certificate_authority, cluster.origin, cwd))


def _anchor_user(user: AuthInfo, cwd: str | None) -> AuthInfo:
    plugin = user.exec
    # A command without a slash is searched for in PATH.
    if plugin is not None and os.sep in plugin.command:
        plugin = replace(plugin, command=_anchor(plugin.command, user.origin, cwd))
    return replace(
        user,
        client_certificate=_anchor(user.client_certificate, user.origin, cwd),
        client_key=_anchor(user.client_key, user.origin, cwd),
        token_file=_anchor(user.token_file, user.origin, cwd),
        exec=plugin,
    )


def _anchor(path: str, origin: str, cwd: str | None) -> str:
    """Return *path* as an absolute path, relative to the folder of the file *origin*."""
    if not path or os.path.isabs(path):
        return path
    folder = os.path.join(os.path.dirname(origin), path)
    return _clean(folder if os.path.isabs(folder) else os.path.join(cwd or os.getcwd(), folder))


def _clean(path: str) -> str:
    """Return *path* normalized as in Go, which unlike Python does not keep two leading slashes."""
    tidy = os.path.normpath(path)
    return tidy[1:] if tidy.startswith("//") else tidy


def _from(cwd: str | None, path: str) -> str:
    return path if cwd is None else os.path.join(cwd, path)


def place(
    files: Iterable[KubeconfigFile], origin: str, entry: tuple[str, str], at: Path, problem: Problem
) -> Problem:
    """Return *problem* with the position of the path *at* inside *entry*, a section and name, of the file *origin*."""
    section, name = entry
    for file in files:
        if file.path == origin:
            return file.problem((*file.find(section, name), SECTIONS[section], *at), problem)
    return problem.changed(path=format_path((section, name, *at)))


def decode_file(
    path: str, data: bytes, read_data: Callable[[bytes], Document] | None = None
) -> KubeconfigFile:
    """Decode one kubeconfig; problems are part of the result.

    *read_data* returns the document of *data*, if it was read already.
    """
    read = read_typed(path, data, read_data or (lambda content: read_yaml(content, quoting=True)))
    if isinstance(read, Refused):
        return refuse_file(path, read.problem, read.document)
    file = KubeconfigFile(path=path, document=read.document, config=Kubeconfig())
    foreign = _judge_type(read.api_version, read.kind, data)
    if foreign is not None:
        at: Path = (foreign.path,) if foreign.path else ()
        return refuse_file(path, file.problem(at, foreign), read.document)
    return _decode_config(file, read.document)


def refuse_file(path: str, problem: Problem, document: Document | None = None) -> KubeconfigFile:
    """Return the result for a file that is not a kubeconfig, because of *problem*."""
    return KubeconfigFile(
        path=path,
        document=document,
        config=Kubeconfig(),
        problems=(problem,),
        kubernetes_text=_loading_text(path, problem),
        kind=problem.kind,
    )


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
    return replace(
        file,
        config=config,
        problems=tuple(file.problem(at, problem) for at, problem in reader.problems),
        kubernetes_text=_loading_text(file.path, failure),
        kind=failure.kind,
    )


def _with_origin(config: Kubeconfig, origin: str) -> Kubeconfig:
    return replace(
        config,
        clusters={name: replace(item, origin=origin) for name, item in config.clusters.items()},
        users={name: replace(item, origin=origin) for name, item in config.users.items()},
        contexts={name: replace(item, origin=origin) for name, item in config.contexts.items()},
    )
