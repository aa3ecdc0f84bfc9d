"""Problems of config files that do not depend on their content: ignored parts, and write permissions."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import yaml

from keyferry._core.documents import DocumentFormat
from keyferry.api.kubeletconfig import v1
from keyferry.errors import Problem
from keyferry.images.config.read import CONFIG_KIND, ConfigFile, ReadConfig
from keyferry.invoke.shim import BEHIND, LINK

_EXTENSIONS = (".json", ".yaml", ".yml")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def check_files(config: ReadConfig, bin_dir: str | None = None) -> Iterator[Problem]:
    """Yield the problems of the files of *config*; plugins in *bin_dir* are not reported as ignored files."""
    if os.path.isdir(config.path):
        yield from _ignored(config, bin_dir)
        yield from _writable(config.path, "the config directory")
    for file in config.files:
        yield from _writable(file.path, "the config")
        yield from _old_version(file)
        yield from _later_documents(file)


def who_writes(mode: int) -> str:
    """Return who can write a file of this mode besides its owner; empty if nobody can."""
    if mode & stat.S_IWOTH:
        return "everybody"
    return "its group" if mode & stat.S_IWGRP else ""


def _writable(path: str, what: str) -> Iterator[Problem]:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # reported when it was read
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return  # such as /dev/stdin
    who = who_writes(mode)
    if who:
        message = (
            f"{who} can write {what} and choose the programs that the kubelet runs; run chmod go-w {path}"
        )
        yield Problem("", message, code="KF182", file=path)


def _old_version(file: ConfigFile) -> Iterator[Problem]:
    value = file.document.value if file.document else None
    if not isinstance(value, dict) or value.get("kind") != CONFIG_KIND:
        return  # other kinds of this group have versions of their own
    version = value.get("apiVersion")
    if isinstance(version, str) and version.startswith(f"{v1.GROUP}/v1") and version != v1.API_VERSION:
        message = (
            f"{version!r} is outdated since Kubernetes 1.26; set {v1.API_VERSION!r}, the fields are the same"
        )
        yield file.problem(("apiVersion",), Problem("apiVersion", message, code="KF179"))


def _later_documents(file: ConfigFile) -> Iterator[Problem]:
    if file.document is None or file.document.format is not DocumentFormat.YAML:
        return
    start = second_document(file.data)
    if start is not None:
        message = "only the first YAML document is read: everything from this '---' on is ignored"
        yield Problem("", message, code="KF180", file=file.path, line=start[0], column=start[1])


def second_document(data: bytes) -> tuple[int, int] | None:
    """Return the line and column of the second document that is not empty; None if there is none."""
    start, number = (1, 1), 0
    try:
        for event in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.DocumentStartEvent):
                start, number = _position(event), number + 1
            elif number > 1 and isinstance(event, yaml.NodeEvent) and not _is_nothing(event):
                return start
    except yaml.YAMLError:
        # The kubelet does not parse the later documents, so it ignores them even if they are invalid.
        return start if number > 1 else None
    return None


def _position(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _is_nothing(event: yaml.NodeEvent) -> bool:
    return isinstance(event, yaml.ScalarEvent) and not event.value and not event.style


def _ignored(config: ReadConfig, bin_dir: str | None) -> Iterator[Problem]:
    read = {os.path.basename(file.path) for file in config.files}
    named = [provider.name for provider in config.providers] if _is_same(config.path, bin_dir) else []
    plugins = {name + suffix for name in named for suffix in ("", LINK, *BEHIND)}
    try:
        names = sorted(os.listdir(config.path))
    except OSError:
        return
    for name in names:
        # Kubernetes keeps the content of a mounted ConfigMap in "..data" and similar names.
        if name not in read and name not in plugins and not name.startswith(".."):
            yield _ignored_entry(os.path.join(config.path, name), name)


def _is_same(path: str, other: str | None) -> bool:
    return other is not None and os.path.realpath(path) == os.path.realpath(other)


def _ignored_entry(path: str, name: str) -> Problem:
    if os.path.isdir(path):
        message = "this directory is ignored: a config directory is not read recursively"
    else:
        message = f"this file is ignored: only names ending in .json, .yaml or .yml are read{_rename(name)}"
    return Problem("", message, code="KF181", file=path)


def _rename(name: str) -> str:
    stem, extension = os.path.splitext(name)
    if extension.lower() in _EXTENSIONS:
        return f", in lower case; rename it to {stem + extension.lower()!r}"
    if any(known in name.lower() for known in _EXTENSIONS):
        return "; delete it if it is a backup"
    return "; rename it if it is a config"
