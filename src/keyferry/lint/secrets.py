"""Variables and arguments of a plugin that look like secrets or load other code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keyferry._core.secrets import redact

__all__ = ["is_loader", "is_placeholder", "looks_secret", "refers_to_variable", "secret_arguments"]

_LOADERS = frozenset(
    {"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "PYTHONPATH", "NODE_OPTIONS"}
)
_SECRET_NAME = re.compile(
    r"(?i)passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key|access[_-]?key(?![_-]?id)|credentials?$"
)
# Endings of names for the location or a property of a secret, not for the secret itself.
_ABOUT = re.compile(
    r"(?i)(?:file|path|dir|ur[li]|endpoint|host|name|arn|id|ttl|seconds|duration|expiry|audience|type|method|mode|"
    r"version|region|enabled|scope|provider|store|socket)$"
)
_HARMLESS_VALUE = re.compile(r"(?i)/.*|true|false|yes|no|none|[0-9]{1,6}[a-z]?|[a-z][a-z0-9+.-]*://[^@]*")
_SECRET_VALUE = re.compile(
    r"\beyJ[\w-]{10,}\.[\w-]+|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s@:]+:[^/\s@]+@|"
    r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bglpat-[\w-]{15,}|\bdckr_pat_[\w-]{15,}"
)
# Text that stands for a secret which is filled in, or was taken out.
_PLACEHOLDER = re.compile(
    r"<[^<>]*>|\{\{.*\}\}|\[[A-Za-z_ -]+\]|\$\{[^{}]*\}|\$\([^()]*\)|\$[A-Za-z_]\w*|%\w+%|(?i:your)[-_ ][\w -]*|"
    r"(?i:hidden|redacted|masked|removed|(?:data\+)?omitted|placeholder|change[-_ ]?me|todo)|(?i:x{3,})|\*+|\.{3}"
)
_REFERENCE = re.compile(r"\$\{[A-Za-z_]\w*\}|\$\([A-Za-z_]\w*\)|(?<![\w$])\$[A-Z_][A-Z0-9_]+\b")
# A named secret inside JSON, YAML or a shell command.
_INNER = re.compile(
    r"""(?i)(?:token|password|secret|clientKeyData)\\*["']?\s*[:=]\s*(?:\\*["'])?([^\s"'\\,;}]+)"""
)
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


def is_loader(name: str) -> bool:
    """Return whether a variable changes which code a program runs."""
    return name in _LOADERS or name.startswith("LD_")


def looks_secret(name: str, value: str) -> bool:
    """Return whether the value of a variable or option looks like a secret, by its name and its form."""
    if is_placeholder(value):
        return False
    if _SECRET_VALUE.search(value):
        return True
    is_named = _SECRET_NAME.search(name) is not None and _ABOUT.search(name) is None
    return is_named and bool(value) and _HARMLESS_VALUE.fullmatch(value) is None


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for a secret that is not there: ``<client_secret>``, ``${TOKEN}``, ``HIDDEN``."""
    return _PLACEHOLDER.fullmatch(value.strip()) is not None


def refers_to_variable(value: str) -> bool:
    """Return whether a value refers to a variable, as a shell would expand it: ``${HOME}/x``."""
    return _REFERENCE.search(value) is not None


def secret_arguments(args: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield the index and a description of each argument or option value that looks like a secret.

    An option and its value in the next argument are one.
    """
    told = -1
    for index, arg in enumerate(args):
        if index == told:
            continue
        option = _OPTION.fullmatch(arg)
        name, value = (option[1], option[2]) if option else ("", None)
        if value is None:
            following = args[index + 1] if index + 1 < len(args) else ""
            value = following if option and not following.startswith("-") else ""
        if name and looks_secret(name, value):
            told = index if option and option[2] is not None else index + 1
            yield index, f"the value of option {name!r}"
        elif _SECRET_VALUE.search(arg):
            yield index, f"the value of option {name!r}" if name else "the argument"
        elif not option and _holds_secret(arg):
            yield index, "a part of the argument"


def _holds_secret(arg: str) -> bool:
    """Return whether an argument is a text with a secret inside, such as an ``echo`` of a whole ExecCredential."""
    named = (found[1] for found in _INNER.finditer(arg))
    return any(not is_placeholder(value) for value in named) and redact(arg) != arg
