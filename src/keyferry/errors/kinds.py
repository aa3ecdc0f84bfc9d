"""The kinds of errors, and the base class of all errors, each of which has one kind."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["KeyferryError", "Kind", "TextError"]


class Kind(StrEnum):
    """The kind of an error; documents contain these words, and the command line has an exit code for each.

    ``NOT_FOUND``, ``CONTENT`` and ``ERROR`` apply to several things: a program or an image, a record or the content
    that a registry sent.
    """

    # any subject
    ERROR = "error"
    NOT_FOUND = "not-found"
    TIMEOUT = "timeout"
    CONTENT = "content"
    # a registry, a server, a container runtime
    REFUSED = "refused"
    THROTTLED = "throttled"
    UNREACHABLE = "unreachable"
    UNSAFE = "unsafe"  # it requested an action that is not safe
    ABSENT = "absent"  # an image that is not on the node and must not be pulled
    # a plugin
    START = "start"
    EXIT = "exit"
    OUTPUT = "output"
    PROTOCOL = "protocol"
    # a pull record
    SYNTAX = "syntax"
    TYPE = "type"
    TRUST = "trust"
    FOREIGN = "foreign"
    MISPLACED = "misplaced"
    LOCKED = "locked"
    SYSTEM = "system"
    # a document; these are the words of the recorded answers
    JSON_SYNTAX = "json-syntax"
    YAML_SYNTAX = "yaml-syntax"
    WRONG_TYPE = "wrong-type"
    STRICT = "strict"
    DURATION = "duration"
    BASE64 = "base64"
    URL = "url"
    GROUP_VERSION = "group-version"
    MISSING_KIND = "missing-kind"
    MISSING_API_VERSION = "missing-apiversion"
    UNKNOWN_TYPE = "unknown-type"
    OTHER = "other"
    # an argument, or the state of this machine
    NAME = "name"
    PATTERN = "pattern"
    TIME = "time"
    CONFIG = "config"
    POLICY = "policy"
    ENVIRONMENT = "environment"
    PULL_SECRET = "pull-secret"  # noqa: S105 - a word
    SERVICE_ACCOUNT = "service-account"


class KeyferryError(Exception):
    """The base class of all exceptions that keyferry raises."""

    kind: Kind = Kind.ERROR
    kubernetes_text: str = ""

    def __repr__(self) -> str:
        # Without ``args``, which Python's repr shows: they hold kubernetes_text, which may quote a secret.
        return f"{type(self).__name__}({str(self)!r})"


class TextError(KeyferryError):
    """An error with one message, and Kubernetes' message for it."""

    def __init__(self, message: str, kubernetes_text: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.message = message
        self.kubernetes_text = kubernetes_text or message

    def __str__(self) -> str:
        return self.message
