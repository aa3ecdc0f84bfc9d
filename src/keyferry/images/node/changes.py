"""Files that changed after the kubelet that reads them started: it reads its configs only once, at its start."""

from __future__ import annotations

import os
import re
from enum import StrEnum

from keyferry._core.host_root import on_host
from keyferry._core.values import Value
from keyferry.images.config.contents import UnreadableError, config_files, hash_of_files
from keyferry.images.node.settings import KubeletSettings

# The system's start is known in whole seconds, and a kubelet reads its files shortly after its own.
_MARGIN_SECONDS = 1.0
_HASH = re.compile(r'^kubelet_credential_provider_config_info\{hash="(sha256:[0-9a-f]{64})"\} ', re.MULTILINE)


class ChangedFile(StrEnum):
    """What a file is to the kubelet."""

    KUBELET_CONFIG = "kubelet config"
    PROVIDER_CONFIG = "provider config"


class Newer(Value):
    """A file that changed after the kubelet's start; both times are in seconds since the epoch.

    It is *certain* that the kubelet has not read this state of it only if the kubelet tells the hash of what it read;
    else only the times are known: the change may be one of the owner, or the file was written again unchanged.
    """

    path: str
    changed: float
    started: float
    kind: ChangedFile
    is_certain: bool = False


def changed_at(path: str) -> float | None:
    """Return when a file changed, in seconds since the epoch: its content, its owner or mode, or its place.

    For a folder of provider configs, it is the time of the newest of its files and of the folder. None if it cannot
    be read.
    """
    try:
        paths = {path, *config_files(path)}
    except UnreadableError:
        paths = {path}  # a folder without a config, or nothing
    try:
        # A link may be set to another file, which is older.
        found = [os.stat(on_host(each)) for each in paths]
        found += [os.lstat(on_host(each, follows=False)) for each in paths]
    except (OSError, ValueError):
        return None
    return max(max(each.st_mtime, each.st_ctime) for each in found)


def newer_than_kubelet(
    settings: KubeletSettings, provider_config: str = "", loaded_hash: str = ""
) -> tuple[Newer, ...]:
    """Return the files of a kubelet that changed after it started; none if its start is not known.

    *provider_config* is the one that its flags name, empty if they name none. *loaded_hash* is the hash of the
    provider config that the kubelet has read, from ``read_config_hash``: it decides, and the times do not count.
    """
    started = settings.kubelet.started
    if started is None:
        return ()
    files = [(path, ChangedFile.KUBELET_CONFIG, "") for path in settings.files]
    if provider_config:
        path = settings.kubelet.inside(provider_config)
        files.append((path, ChangedFile.PROVIDER_CONFIG, loaded_hash))
    found = (_newer(*file, started) for file in files)
    return tuple(each for each in found if each is not None)


def _newer(path: str, kind: ChangedFile, loaded_hash: str, started: float) -> Newer | None:
    changed = changed_at(path)
    if changed is None:
        return None
    present_hash = hash_of_files(path) if loaded_hash else ""
    is_newer = present_hash != loaded_hash if present_hash else changed > started + _MARGIN_SECONDS
    return (
        Newer(path=path, changed=changed, started=started, kind=kind, is_certain=bool(present_hash))
        if is_newer
        else None
    )


def read_config_hash(metrics: str) -> str:
    """Return the hash of the provider config that a kubelet has read, from the text of its metrics; empty if none."""
    found = _HASH.search(metrics)
    return "" if found is None else found[1]
