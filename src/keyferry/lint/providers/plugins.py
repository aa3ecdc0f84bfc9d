"""Owners and permissions of the programs that a kubelet runs: the bin dir, the plugins, linked files."""

from __future__ import annotations

import os
from collections.abc import Iterator

from keyferry.errors import Problem
from keyferry.images.config.validate import plugin_path
from keyferry.invoke.shim import plugin_behind
from keyferry.lint.files import who_writes

CodedMessage = tuple[str, str]  # code and message


def check_bin_dir_owner(bin_dir: str) -> Iterator[Problem]:
    """Yield who else can change the bin dir."""
    try:
        found = os.stat(bin_dir)
    except OSError:
        return  # reported as an error of its own
    who = who_writes(found.st_mode)
    if who:
        message = (
            f"{who} can write to the bin dir and choose the programs that the kubelet runs as root; run chmod "
            f"go-w {bin_dir}"
        )
        yield Problem("", message, code="KF190", file=bin_dir)
    if _is_foreign(found.st_uid):
        message = (
            f"the bin dir belongs to user {found.st_uid}, who can change the programs that the kubelet runs; "
            f"run chown root {bin_dir}"
        )
        yield Problem("", message, code="KF192", file=bin_dir)


def check_plugin(bin_dir: str, name: str) -> Iterator[CodedMessage]:
    """Yield who else can change one plugin, and the one behind it if it is a shim; nothing if it cannot be run."""
    path = plugin_path(bin_dir, name)
    if not name or os.path.dirname(path) != os.path.normpath(bin_dir):
        return
    for program in dict.fromkeys((path, plugin_behind(path) or path)):
        yield from _check_program(bin_dir, program)


def _check_program(bin_dir: str, path: str) -> Iterator[CodedMessage]:
    target = os.path.realpath(path)
    if not os.path.isfile(target):
        return
    found = os.stat(target)
    is_link = target != os.path.join(os.path.realpath(bin_dir), os.path.basename(path))
    shown = f"{path} (a link to {target})" if is_link else path
    who = who_writes(found.st_mode)
    if who:
        yield (
            "KF191",
            f"{who} can write {shown} and choose the program that the kubelet runs as root; run chmod go-w {target}",
        )
    if _is_foreign(found.st_uid):
        yield "KF192", f"{shown} belongs to user {found.st_uid}, who can change it; run chown root {target}"
    yield from _link(bin_dir, path, target)


def _link(bin_dir: str, path: str, target: str) -> Iterator[CodedMessage]:
    home, folder = os.path.realpath(bin_dir), os.path.dirname(target)
    if folder == home or folder.startswith(home + "/"):
        return
    yield (
        "KF193",
        (
            f"{path} is a link to {target}, outside the bin dir; the bin dir's "
            "permissions do not protect that file"
        ),
    )
    who = who_writes(os.stat(folder).st_mode)
    if who:
        yield (
            "KF191",
            f"{who} can write to {folder}, where {path} points, and replace the plugin; run chmod go-w {folder}",
        )


def _is_foreign(uid: int) -> bool:
    return uid not in (0, os.geteuid())
