"""Read the kubeconfig files that kubectl reads and merge them by its rules, with the origin of each entry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from keyferry._core.gotext import go_strerror
from keyferry._core.values import Value, field, replace
from keyferry.api.codec import aggregate
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Kubeconfig, Preferences
from keyferry.clusters.kubeconfig.decode import KubeconfigFile, decode_file, refuse_file
from keyferry.clusters.kubeconfig.trust import why_untrusted
from keyferry.errors import KubeconfigError, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = [
    "KubeconfigFile",
    "LoadedKubeconfig",
    "go_read_error",
    "load_kubeconfig",
    "merge_configs",
    "read_kubeconfigs",
]

# Larger than any kubeconfig; the path may name a device or a pipe that never ends.
_LARGEST_FILE = 64 << 20


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
        paths = (
            _listed_paths(listed) if listed else _home_path(environ.get("HOME", "") if home is None else home)
        )
        return _read_files(paths, cwd, warn=bool(listed))
    absent = _find_absent(explicit, cwd)
    if absent is None:
        return _read_files((explicit,), cwd, warn=False)
    text = absent.kubernetes_text
    return LoadedKubeconfig(
        Kubeconfig(), paths=(explicit,), missing=(explicit,), problems=(absent,), kubernetes_text=text
    )


def go_read_error(path: str, error: OSError | ValueError) -> str:
    """Return Go's error text for a file that cannot be read; Go can open a directory, but not read it."""
    step = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{step} {path}: {go_strerror(error)}"


def _listed_paths(listed: str) -> tuple[str, ...]:
    return tuple(path for path in dict.fromkeys(listed.split(os.pathsep)) if path)


def _home_path(home: str) -> tuple[str, ...]:
    return (_clean(os.path.join(home, ".kube", "config")),)


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
        merge_configs(usable, cwd),
        files,
        (f"Config not found: {', '.join(missing)}",) if warned else (),
        paths,
        missing,
        tuple(problem for file in files for problem in file.problems),
        aggregate(file.kubernetes_text for file in files if file.problems),
    )


def _read_file(path: str, cwd: str | None) -> KubeconfigFile | None:
    place = _from(cwd, path)
    try:
        with open(place, "rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
            untrusted = why_untrusted(place, os.fstat(stream.fileno()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        message = f"cannot be read: {go_strerror(error)}"
        return refuse_file(path, Problem("", message, kubernetes_text=go_read_error(path, error), file=path))
    if len(data) > _LARGEST_FILE:
        return refuse_file(path, Problem("", f"the file is larger than {_LARGEST_FILE} bytes", file=path))
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
