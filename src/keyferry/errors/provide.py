"""Errors with which a plugin made with the SDK ends when it has no credential."""

from __future__ import annotations

from keyferry.errors.kinds import KeyferryError, Kind

__all__ = ["HttpError", "ProvideError"]


class ProvideError(KeyferryError):
    """A plugin made with the SDK has no credential; *hint* is the permission, setting or command that helps.

    The SDK prints this error on standard error and exits with a status other than 0. *retry_after_seconds* is the pause
    that a server asked for, which the node agent keeps to.
    """

    def __init__(
        self, message: str, hint: str = "", kind: Kind = Kind.ERROR, *, retry_after_seconds: int = 0
    ) -> None:
        super().__init__(message, hint, kind)
        self.message = message
        self.hint = hint
        self.kind = kind
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class HttpError(ProvideError):
    """A server is unreachable, or its response is not HTTP; *url* has no query and no user info."""

    def __init__(self, url: str, problem: str, hint: str = "", is_timeout: bool = False) -> None:  # noqa: FBT001, FBT002 - args mirror it
        super().__init__(f"{url}: {problem}", hint, Kind.TIMEOUT if is_timeout else Kind.UNREACHABLE)
        self.args = (url, problem, hint, is_timeout)
        self.url = url
        self.problem = problem
        self.is_timeout = is_timeout
