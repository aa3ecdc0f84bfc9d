"""The error of a failed authentication to a cluster."""

from __future__ import annotations

from keyferry.errors.kinds import KeyferryError, Kind

__all__ = ["ClusterAuthError"]


class ClusterAuthError(KeyferryError):
    """A credential for a cluster could not be obtained or used; ``underlying`` is the cause, if it is another error.

    ``kind`` is that of the underlying error, else ``REFUSED``, ``UNREACHABLE`` for a server that could not be reached,
    or ``TIMEOUT`` for one that did not respond in time. ``server`` is the URL of the server without user info and
    the values of its query, which may hold a password or token. ``stderr_tail`` is the reason that a plugin gave: the
    end of its standard error, with secrets masked; empty for a plugin that had the terminal.
    """

    def __init__(
        self,
        server: str,
        message: str,
        kubernetes_text: str = "",
        underlying: KeyferryError | None = None,
        kind: Kind = Kind.REFUSED,
    ) -> None:
        if "@" in server or "?" in server or "#" in server:
            # Imported here: it is the only module that errors depend on, and it is rarely needed.
            from keyferry._core.user_info import hide_in_url

            server = hide_in_url(server)
        super().__init__(server, message, kubernetes_text, underlying, kind)
        self.server = server
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.underlying = underlying
        self.kind = kind if underlying is None else underlying.kind
        self.stderr_tail: str = getattr(underlying, "stderr_tail", "")

    def __str__(self) -> str:
        return f"cluster {self.server!r}: {self.message}" if self.server else self.message
