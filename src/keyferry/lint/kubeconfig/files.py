"""Who else can read or write a kubeconfig."""

import os
import stat
from collections.abc import Iterable, Iterator

from keyferry.api.kubeconfig.v1 import Kubeconfig
from keyferry.clusters.kubeconfig.trust import UNJUDGED, why_untrusted
from keyferry.errors import Problem

__all__ = ["check_file", "check_writers"]

_READABLE, _UNTRUSTED = "KF290", "KF291"
# Findings that say that the file holds a secret.
_SECRETS = frozenset({"KF264", "KF270", "KF271"})


def check_file(path: str, config: Kubeconfig, found: Iterable[Problem]) -> Iterator[Problem]:
    """Who else can read *path*, if one of the problems *found* is a secret in it, and who can write it."""
    if any(problem.code in _SECRETS for problem in found):
        yield from _readers(path)
    runs = any(user.exec is not None for user in config.users.values())
    consequence = "and so choose which program runs" if runs else "and so choose which server is trusted"
    yield from check_writers(path, consequence, _UNTRUSTED)


def _readers(path: str) -> Iterator[Problem]:
    mode = _mode(path)
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        who = "everybody" if mode & stat.S_IROTH else "its group"
        message = f"{who} can read this file, and there are secrets in it; chmod go-r {path}"
        yield Problem("", message, code=_READABLE, file=path)


def check_writers(path: str, consequence: str, code: str) -> Iterator[Problem]:
    """Who beside its user could have written *path*: the verdict by which keyferry follows the file, or not."""
    try:
        why = why_untrusted(path, os.stat(path))
    except (OSError, ValueError):
        why = UNJUDGED
    if why:
        message = (
            f"{why}: others can change this file {consequence}; keep it where only you or root can write, "
            f"chown it to yourself, chmod go-w {path}"
        )
        yield Problem("", message, code=code, file=path)


def _mode(path: str) -> int:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return 0  # it was read a moment ago
    return mode if stat.S_ISREG(mode) else 0
