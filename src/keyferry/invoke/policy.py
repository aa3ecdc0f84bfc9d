"""The policy for programs that may run, as in kubectl's kuberc, and programs pinned by digest."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable

from keyferry._core.gotext import go_strerror, quote
from keyferry._core.program.start import move_up
from keyferry._core.values import Value
from keyferry.errors import PolicyError
from keyferry.invoke.executable import LookPath, base_name, clean_path, look_command, look_path

ALLOW_ALL = "AllowAll"
DENY_ALL = "DenyAll"
ALLOWLIST = "Allowlist"
_DIGEST = "[0-9a-fA-F]{64}"
_CHUNK = 1 << 20


class AllowlistEntry(Value):
    """A program that may run, by name or path; with *sha256*, only if the file has that digest.

    The digest is an extension of keyferry: Kubernetes supports only commands.
    """

    command: str
    sha256: str = ""


class Permit(Value):
    """Permission to run *path* if it has one of *digests*; *problem* is Go's text if it cannot be run."""

    path: str
    problem: str = ""
    digests: frozenset[str] = frozenset()


class PluginPolicy(Value):
    """A policy that allows all programs, none, or those in an allowlist."""

    policy_type: str = ""
    allowlist: tuple[AllowlistEntry, ...] | None = None

    def validate(self) -> None:
        """Raise PolicyError for a policy that client-go rejects, with the first error that it reports."""
        if self.policy_type in ("", ALLOW_ALL, DENY_ALL):
            if self.allowlist is not None:
                text = f"plugin policy is {quote(self.policy_type)} but allowlist is non-nil"
                message = f"an allowlist requires the policy {ALLOWLIST!r}, found {self.policy_type!r}"
                raise PolicyError(message, f"misconfigured credential plugin allowlist: {text}")
        elif self.policy_type == ALLOWLIST:
            _validate_list(self.allowlist)
        else:
            message = f"unknown policy {self.policy_type!r}, expected {ALLOW_ALL}, {DENY_ALL} or {ALLOWLIST}"
            raise PolicyError(message, f"unknown plugin policy: {quote(self.policy_type)}")

    def decide(self, command: str, look: LookPath = look_path) -> Permit:
        """Return the permit for a cleaned *command*. Raises PolicyError if it may not run.

        A program that does not exist is permitted if all programs are, or if the allowlist contains it literally.
        """
        found = look_command(command, look)
        path = found.path or command
        if self.policy_type in ("", ALLOW_ALL):
            return Permit(path=path, problem=found.problem)
        if self.policy_type == ALLOWLIST:
            return self._decide_by_list(command, path, found.problem, look)
        text = f"plugin {quote(command)} not allowed: policy set to {quote(DENY_ALL)}"
        raise PolicyError(f"program {command!r} may not run: the policy is {DENY_ALL}", text)

    def _decide_by_list(self, command: str, path: str, problem: str, look: LookPath) -> Permit:
        if listed := self._listed(command, path):
            return Permit(path=path, problem=problem, digests=_digests(listed))
        if path == command:
            found = look(path)
            path, problem = found.path or path, found.problem
        if problem:
            reason = f"cannot be resolved for credential plugin allowlist check: {problem}"
            message = f"program {path!r} is not in the allowlist and cannot be resolved: {problem}"
            raise PolicyError(message, f"plugin path {quote(path)} {reason}")
        if listed := self._listed(path) or self._resolved(path, look):
            return Permit(path=path, digests=_digests(listed))
        text = f"plugin path {quote(path)} is not permitted by the credential plugin allowlist"
        raise PolicyError(f"program {path!r} is not in the allowlist", text)

    def _listed(self, *names: str) -> list[AllowlistEntry]:
        return [entry for entry in self.allowlist or () if entry.command in names]

    def _resolved(self, path: str, look: LookPath) -> list[AllowlistEntry]:
        """Return the entries that resolve to *path*; only those with the same base name are searched for."""
        name = base_name(path)
        alike = [entry for entry in self.allowlist or () if base_name(entry.command) == name]
        return [entry for entry in alike if (found := look(entry.command)).path == path and not found.problem]


def open_pinned(path: str, digests: Iterable[str]) -> int:
    """Open a program, check its digest, and return its descriptor.

    The caller executes the descriptor through ``/proc/self/fd``, not the path, so replacing the file or a
    link after the check does not change what runs. This does not protect against users who may write to the
    file itself, and the digest of a script does not cover its interpreter.
    Raises PolicyError for another digest, and OSError if the program does not exist.
    """
    if sys.platform != "linux" or not os.path.isdir("/proc/self/fd"):
        raise PolicyError(f"program {path!r} is pinned by its digest, which requires Linux and /proc")
    problem: OSError
    try:
        # O_NONBLOCK, because opening a named pipe would block.
        fd = move_up(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise
        problem = error
    else:
        try:
            _check_digest(fd, path, digests)
        except BaseException:
            os.close(fd)
            raise
        return fd
    raise PolicyError(f"program {path!r} cannot be read to check its digest: {go_strerror(problem)}")


def _check_digest(fd: int, path: str, digests: Iterable[str]) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise PolicyError(f"program {path!r} is not a regular file, which its digest requires")
    import hashlib

    digest = hashlib.sha256()
    while chunk := os.read(fd, _CHUNK):
        digest.update(chunk)
    found = digest.hexdigest()
    if found not in digests:
        raise PolicyError(f"program {path!r} has the SHA-256 {found}, which is not in the allowlist for it")


def _digests(entries: list[AllowlistEntry]) -> frozenset[str]:
    """Return the digests of *entries*; empty if one entry has none, since one matching entry is sufficient."""
    if not all(entry.sha256 for entry in entries):
        return frozenset()
    return frozenset(entry.sha256.lower() for entry in entries)


def _validate_list(entries: tuple[AllowlistEntry, ...] | None) -> None:
    policy = f"credential plugin policy set to {quote(ALLOWLIST)}"
    if entries is None:
        # A misspelt field name has the same effect, and must not allow every program.
        message = f"the policy {ALLOWLIST} requires an allowlist"
        raise PolicyError(message, f"{policy}, but allowlist is unspecified")
    if not entries:
        message = f"the policy {ALLOWLIST} requires an allowlist that is not empty; to allow nothing, use {DENY_ALL}"
        text = f"{policy}, but allowlist is empty; use {quote(DENY_ALL)} policy instead"
        raise PolicyError(message, text)
    for number, entry in enumerate(entries, 1):
        validate_entry(number, entry)


def validate_entry(number: int, entry: AllowlistEntry) -> None:
    """Raise PolicyError for an entry that kubectl rejects; *number* counts from 1."""
    if not entry.command and not entry.sha256:
        text = f"misconfigured credential plugin allowlist: empty allowlist entry #{number}"
        raise PolicyError(f"entry {number} of the allowlist is empty", text)
    cleaned = clean_path(entry.command)
    if cleaned != entry.command:
        message = f"entry {number} of the allowlist is {entry.command!r}, expected {cleaned!r}"
        raise PolicyError(message, f"non-normalized file path: {quote(entry.command)} vs {quote(cleaned)}")
    if entry.sha256 and not re.fullmatch(_DIGEST, entry.sha256):
        message = f"entry {number} of the allowlist: sha256 {entry.sha256!r} is not 64 hexadecimal digits"
        raise PolicyError(message, field="sha256")
