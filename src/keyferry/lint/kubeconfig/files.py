"""The permissions of a kubeconfig: who else can read or write it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from keyferry.api.kubeconfig.v1 import Kubeconfig
from keyferry.clusters.kubeconfig.trust import UNJUDGED, why_untrusted
from keyferry.errors import Problem

__all__ = ["check_file", "check_writers"]

_READABLE, _UNTRUSTED = "KF290", "KF291"
# The codes of findings about a secret in the file.
_SECRETS = frozenset({"KF264", "KF270", "KF271"})


def check_file(path: str, config: Kubeconfig, found: Iterable[Problem]) -> Iterator[Problem]:
    """Yield who else can write *path*, and who else can read it if *found* has a secret."""
    if any(problem.code in _SECRETS for problem in found):
        yield from _readers(path)
    runs = any(user.exec is not None for user in config.users.values())
    consequence = "and choose which program runs" if runs else "and choose which server is trusted"
    yield from check_writers(path, consequence, _UNTRUSTED)


def _readers(path: str) -> Iterator[Problem]:
    mode = _mode(path)
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        who = "everybody" if mode & stat.S_IROTH else "its group"
        message = f"{who} can read this file, which contains secrets; run chmod go-r {path}"
        yield Problem("", message, code=_READABLE, file=path)


def check_writers(path: str, consequence: str, code: str) -> Iterator[Problem]:
    """Yield who besides its user could have written *path*, by the rule with which keyferry trusts a file."""
    try:
        why = why_untrusted(path, os.stat(path))
    except (OSError, ValueError):
        why = UNJUDGED
    if why:
        message = (
            f"{why}: other users can change this file {consequence}; keep it in a folder that only you or root can "
            f"write, and make it yours with chown and chmod go-w {path}"
        )
        yield Problem("", message, code=code, file=path)


def _mode(path: str) -> int:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return 0  # it was read a moment ago
    return mode if stat.S_ISREG(mode) else 0
