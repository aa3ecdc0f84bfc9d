"""Request headers: a token read from a file, and impersonation."""

from __future__ import annotations

import re
from collections.abc import Callable

from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.errors import ClusterAuthError, EnvironmentProblem

__all__ = ["FORBIDDEN", "Headers", "TokenFile", "impersonation"]

_TOKEN_FILE_NS = 60 * 1_000_000_000
_LARGEST_TOKEN = 1 << 20
# Not allowed in a header value: a line break ends the header and starts another one.
FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Allowed in a header name; other bytes are escaped, including '%', so that the name can be decoded.
_NAME_BYTES = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

Headers = tuple[tuple[str, str], ...]


class TokenFile:
    """A token in a file, which is read again after a minute. If reading fails, the last token is kept.

    A file larger than 1 MiB counts as a failure.
    """

    def __init__(self, config: ClientConfig, monotonic: Callable[[], int]) -> None:
        self._path = config.token_file
        self._token = config.bearer_token.strip()
        self._monotonic = monotonic
        # None means that the file is read at first use: as in client-go, it takes precedence over a static token.
        self._read_ns: int | None = None

    def read(self) -> str:
        """Return the token in the file, or the last one that was read."""
        now = self._monotonic()
        if self._read_ns is None or now - self._read_ns > _TOKEN_FILE_NS:
            self._read_ns = now
            try:
                with open(self._path, encoding="utf-8") as stream:
                    text = stream.read(_LARGEST_TOKEN + 1)
                if len(text) <= _LARGEST_TOKEN:
                    self._token = text.strip() or self._token
            except (OSError, ValueError):
                pass
        return self._token


def impersonation(config: ClientConfig) -> Headers:
    """Return the impersonation headers. Raises ClusterAuthError for a value that cannot be sent."""
    if not config.impersonate:
        return ()
    headers = [("Impersonate-User", config.impersonate)]
    if config.impersonate_uid:
        headers.append(("Impersonate-Uid", config.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in config.impersonate_groups]
    for name, values in config.impersonate_user_extra.items():
        headers += [(f"Impersonate-Extra-{_escape_name(name)}", value) for value in values]
    for name, value in headers:
        if FORBIDDEN.search(value):
            text = f'net/http: invalid header field value for "{name}"'
            message = f"the value of {name} contains a control character and cannot be sent"
            raise ClusterAuthError(config.server, message, text, EnvironmentProblem(message, text))
    return tuple(headers)


def _escape_name(name: str) -> str:
    """Return *name* escaped for a header name, as client-go does."""
    encoded = name.encode("utf-8", "replace")
    return "".join(chr(byte) if byte in _NAME_BYTES else f"%{byte:02X}" for byte in encoded)
