"""What faults happen to: writes of every kind, each from a state that is called old to one that is called new."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from keyferry._core.files import open_folder
from keyferry.agent.sockets import bind_socket
from keyferry.bridge.docker_config import plan_docker_install
from keyferry.bridge.file_change import apply_change
from keyferry.bridge.kubelet_install import install_in_front, python_shim, uninstall
from keyferry.invoke.shim import IN_FRONT, LINK, is_shim
from keyferry.kit.install import PLUGINS, install, launcher_text, write_config
from keyferry.lint.fixes import FixedFile, write_file
from keyferry.pulls.layout import IndexEntry, Layout
from keyferry.pulls.manifest import Platform
from support.images import digest_of
from support.records import IMAGE, REF, open_quickly, secret, with_secrets

OLD, NEW, HALF = "old", "new", "half"
_OLD, _NEW = b"old" * 1000, b"new" * 2000
_PLUGIN = b"#!/bin/sh\nexit 0\n"
_BLOB = b"blob" * 500
_ENTRY = IndexEntry(
    media_type="application/x",
    digest=digest_of(_BLOB),
    size=len(_BLOB),
    platform=Platform(os="linux", architecture="amd64"),
    image="reg.io/app:v1",
    tag="v1",
)
_DOCKER_OLD = '{"auths": {"reg.example": {"auth": "dTpw"}}}'


class Job(NamedTuple):
    """A write: how its place is made ready, the write itself, and the state that is found afterwards.

    One that is low raises the system's own errors: its callers word them. What is done is not run again.
    """

    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    state: Callable[[Path], str]
    is_low: bool = False
    is_done: Callable[[Path], bool] = lambda _: False


def _is_one_of(path: Path, old: bytes | None, new: bytes) -> str:
    found = path.read_bytes() if path.exists() else None
    return NEW if found == new else OLD if found == old else HALF


def _replace(root: Path) -> None:
    with open_folder(str(root)) as folder:
        folder.replace("file", _NEW, mode=0o600)


def _record(root: Path) -> None:
    records = open_quickly(root)
    records.record_intent(IMAGE)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))


def _record_state(root: Path) -> str:
    records = open_quickly(root)
    if records.list().problems or records.list_intents().problems:
        return HALF
    if records.find(REF).record is None:
        return OLD
    # An intent that is left makes the next pull check again: nothing is lost, and nobody is let in.
    return NEW if not records.list_intents().values else OLD


def _fill_layout(root: Path) -> None:
    layout = Layout(str(root / "layout"))
    layout.prepare()
    layout.put(_BLOB, digest_of(_BLOB))
    layout.add(_ENTRY)


def _layout_state(root: Path) -> str:
    folder = root / "layout"
    index = folder / "index.json"
    if not index.exists() or digest_of(_BLOB).encode() not in index.read_bytes():
        return OLD
    blob = folder / "blobs" / "sha256" / digest_of(_BLOB).removeprefix("sha256:")
    is_whole = blob.exists() and blob.read_bytes() == _BLOB and (folder / "oci-layout").exists()
    return NEW if is_whole else HALF


def _write_plugin(root: Path) -> None:
    (root / "plugin").write_bytes(_PLUGIN)
    (root / "plugin").chmod(0o755)


def _bridge(root: Path) -> None:
    install_in_front(str(root), "plugin", python_shim())


def _bridge_state(root: Path) -> str:
    """Return what a kubelet finds: the plugin, or the shim with the plugin behind it."""
    path, behind = root / "plugin", root / f"plugin{IN_FRONT}"
    if not path.exists() or not os.access(path, os.X_OK):
        return HALF
    if path.read_bytes() == _PLUGIN:
        return OLD
    is_new = (
        is_shim(str(path)) and path.read_bytes() == python_shim() and _is_one_of(behind, None, _PLUGIN) == NEW
    )
    return NEW if is_new else HALF


def _write_bridged(root: Path) -> None:
    _write_plugin(root)
    _bridge(root)


def _unbridge(root: Path) -> None:
    uninstall(str(root), "plugin")


def _unbridge_state(root: Path) -> str:
    return {OLD: NEW, NEW: OLD, HALF: HALF}[_bridge_state(root)]


def _write_docker(root: Path) -> None:
    (root / "config.json").write_text(_DOCKER_OLD)


def _docker(root: Path) -> None:
    apply_change(plan_docker_install(str(root / "config.json"), ["reg.io"]))


def _docker_state(root: Path) -> str:
    text = (root / "config.json").read_text()
    if text == _DOCKER_OLD:
        return OLD
    return NEW if '"reg.io"' in text and "dTpw" in text and text.rstrip().endswith("}") else HALF


def _install(root: Path) -> None:
    install(PLUGINS["static"], str(root), "keyferry-static", replace=True)


def _lint_fix(root: Path) -> None:
    write_file(FixedFile(path=str(root / "file"), before=_OLD, after=_NEW))


def _bind(root: Path) -> None:
    # Not closed: a socket file without its process is what a kill leaves too.
    bind_socket(str(root / "agent.sock"), 0o600).socket.detach()


def _bind_first(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(root / "agent.sock"))
        bound.listen()
    (root / "first").write_text(str((root / "agent.sock").stat().st_ino))


def _socket_state(root: Path) -> str:
    path = root / "agent.sock"
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return HALF
    return OLD if path.stat().st_ino == int((root / "first").read_text()) else NEW


def _private(root: Path) -> None:
    from keyferry.sdk.files import write_private

    # It is a cache, whose owner goes on without it: that it was not written is told by the result alone.
    if not write_private(str(root / "file"), _NEW):
        raise OSError(0, "told by the result", str(root))


def _write_old(root: Path) -> None:
    (root / "file").write_bytes(_OLD)
    (root / "file").chmod(0o600)


def _nothing(root: Path) -> None:
    """Leave the folder empty."""


JOBS: Mapping[str, Job] = {
    "a file, by the file kit": Job(
        _write_old, _replace, lambda root: _is_one_of(root / "file", _OLD, _NEW), is_low=True
    ),
    "a record of a pull": Job(_nothing, _record, _record_state),
    "an image in a layout": Job(_nothing, _fill_layout, _layout_state),
    "the shim in front of a plugin": Job(_write_plugin, _bridge, _bridge_state),
    "the removal of that shim": Job(
        _write_bridged,
        _unbridge,
        _unbridge_state,
        is_done=lambda root: _unbridge_state(root) == NEW and not (root / f"plugin{LINK}").is_symlink(),
    ),
    "docker's config, by the bridge": Job(_write_docker, _docker, _docker_state),
    "a plugin that is installed": Job(
        _nothing,
        _install,
        lambda root: _is_one_of(root / "keyferry-static", None, launcher_text(PLUGINS["static"]).encode()),
    ),
    "a provider config that is written": Job(
        _nothing,
        lambda root: write_config(str(root / "config.yaml"), _NEW),
        lambda root: _is_one_of(root / "config.yaml", None, _NEW),
    ),
    "a file that lint corrects": Job(
        _write_old,
        _lint_fix,
        lambda root: _is_one_of(root / "file", _OLD, _NEW),
        is_done=lambda root: (root / "file").read_bytes() == _NEW,
    ),
    "a plugin's private cache": Job(
        _write_old, _private, lambda root: _is_one_of(root / "file", _OLD, _NEW), is_low=True
    ),
    "the agent's socket": Job(_bind_first, _bind, _socket_state),
}
