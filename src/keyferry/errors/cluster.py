"""No credential for a cluster."""

from keyferry.errors.kinds import KeyferryError, Kind

__all__ = ["ClusterAuthError"]


class ClusterAuthError(KeyferryError):
    """No credential for a cluster could be had or used; ``underlying`` is the error behind it, if there is one.

    ``kind`` is that of the underlying error, else ``REFUSED``, or ``TIMEOUT`` of a server that did not answer in
    time. ``server`` is its URL without user info, which may be a password.
    """

    def __init__(
        self,
        server: str,
        message: str,
        kubernetes_text: str = "",
        underlying: KeyferryError | None = None,
        kind: Kind = Kind.REFUSED,
    ) -> None:
        if "@" in server:
            # Imported here: it is the only module that errors need, and seldom.
            from keyferry._core.user_info import hide_user_info

            server = hide_user_info(server)
        super().__init__(server, message, kubernetes_text, underlying, kind)
        self.server = server
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.underlying = underlying
        self.kind = kind if underlying is None else underlying.kind

    def __str__(self) -> str:
        return f"cluster {self.server!r}: {self.message}" if self.server else self.message
