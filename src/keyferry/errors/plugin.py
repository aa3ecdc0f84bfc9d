"""Errors of plugins that were run, or were to be run, and gave no usable response."""

from __future__ import annotations

from enum import StrEnum

from keyferry.errors.kinds import KeyferryError, Kind

__all__ = [
    "Fault",
    "PluginError",
    "PluginExitError",
    "PluginNotFoundError",
    "PluginOutputError",
    "PluginProtocolError",
    "PluginStartError",
    "PluginTimeoutError",
    "UnusableCertificateError",
]


class PluginError(KeyferryError):
    """A plugin that matched and did not give a usable response."""

    kind = Kind.ERROR
    seconds: float | None = None  # the duration of the run, if the plugin was run
    stderr_tail: str = ""  # the end of its standard error, with secrets masked, as far as it is known

    def __init__(self, plugin: str, message: str, kubernetes_text: str = "") -> None:
        super().__init__(plugin, message, kubernetes_text)
        self.plugin = plugin
        self.message = message
        self.kubernetes_text = kubernetes_text or message

    def __str__(self) -> str:
        return f"plugin {self.plugin!r}: {self.message}"


class PluginNotFoundError(PluginError):
    """The plugin's executable is missing.

    ``path`` is where it was expected, if that is one place. ``folder_changed_ns`` is when the folder there was changed
    last, so that a file that was removed from it is missing since then at the latest; None if that is not known.
    """

    kind = Kind.NOT_FOUND

    def __init__(  # noqa: PLR0917 - args mirror the constructor
        self,
        plugin: str,
        message: str,
        kubernetes_text: str = "",
        install_hint: str = "",
        path: str = "",
        folder_changed_ns: int | None = None,
    ) -> None:
        super().__init__(plugin, message, kubernetes_text)
        self.args = (plugin, message, kubernetes_text, install_hint, path, folder_changed_ns)
        self.install_hint = install_hint
        self.path = path
        self.folder_changed_ns = folder_changed_ns


class PluginStartError(PluginError):
    """The plugin's executable exists and cannot be started."""

    kind = Kind.START


class PluginTimeoutError(PluginError):
    """The plugin did not finish in time; it and its process group were killed.

    If *was_killed* is false, the time was spent waiting for another lookup's run, which continues.
    """

    kind = Kind.TIMEOUT

    def __init__(
        self,
        plugin: str,
        timeout_seconds: float,
        kubernetes_text: str = "",
        stderr_tail: str = "",
        was_killed: bool = True,  # noqa: FBT001, FBT002 - args mirror the constructor
    ) -> None:
        end = " and was killed" if was_killed else ", spent waiting for other lookups"
        message = f"did not finish within {timeout_seconds:g} s{end}" + _tail(stderr_tail)
        super().__init__(plugin, message, kubernetes_text)
        self.args = (plugin, timeout_seconds, kubernetes_text, stderr_tail, was_killed)
        self.timeout_seconds = timeout_seconds
        self.stderr_tail = stderr_tail
        self.was_killed = was_killed


class PluginExitError(PluginError):
    """The plugin exited with a status other than 0; ``status`` is negative for a signal."""

    kind = Kind.EXIT

    def __init__(self, plugin: str, status: int, kubernetes_text: str = "", stderr_tail: str = "") -> None:
        what = f"exited with status {status}" if status >= 0 else f"was killed by {signal_name(-status)}"
        super().__init__(plugin, what + _tail(stderr_tail), kubernetes_text)
        self.args = (plugin, status, kubernetes_text, stderr_tail)
        self.status = status
        self.stderr_tail = stderr_tail


class PluginOutputError(PluginError):
    """The plugin wrote more output than is allowed; it and its process group were killed."""

    kind = Kind.OUTPUT

    def __str__(self) -> str:
        return super().__str__() + _tail(self.stderr_tail)


class Fault(StrEnum):
    """The part of the protocol that a plugin's response breaks."""

    SYNTAX = "syntax"  # the response is not one document of the protocol
    GROUP_VERSION = "group-version"  # apiVersion has more than one slash
    VERSION = "version"  # apiVersion differs from that of the request
    KIND = "kind"
    FIELD = "field"
    DURATION = "duration"  # cacheDuration is not a duration
    NO_STATUS = "no-status"
    NO_CREDENTIAL = "no-credential"
    HALF_PAIR = "half-pair"  # a certificate without its key, or the reverse
    KEY_PAIR = "key-pair"  # a certificate and key that cannot be used


class PluginProtocolError(PluginError):
    """The plugin's response breaks the protocol; no byte of the response is quoted.

    ``fault`` is the part of the protocol that it breaks, ``document_kind`` the kind of the decoder's error in
    Kubernetes.
    """

    kind = Kind.PROTOCOL

    def __init__(
        self,
        plugin: str,
        problem: str,
        kubernetes_text: str = "",
        document_kind: Kind = Kind.OTHER,
        fault: Fault = Fault.FIELD,
    ) -> None:
        super().__init__(plugin, problem, kubernetes_text)
        self.args = (plugin, problem, kubernetes_text, document_kind, fault)
        self.problem = problem
        self.document_kind = document_kind
        self.fault = fault

    def __str__(self) -> str:
        return super().__str__() + _tail(self.stderr_tail)


class UnusableCertificateError(PluginProtocolError):
    """The plugin's certificate and key cannot be used; ``expires_ns`` is the expiry in its response."""

    def __init__(self, plugin: str, problem: str, kubernetes_text: str, expires_ns: int | None) -> None:
        super().__init__(plugin, problem, kubernetes_text, fault=Fault.KEY_PAIR)
        self.args = (plugin, problem, kubernetes_text, expires_ns)
        self.expires_ns = expires_ns


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGKILL``."""
    # Imported here: few plugins are killed.
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _tail(stderr_tail: str) -> str:
    one_line = stderr_tail.replace("\n", " | ")
    return f"; stderr: {one_line}" if one_line else ""
