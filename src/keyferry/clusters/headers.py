"""What a request says beside its path: a token from a file, and whom to act as."""

import re
from collections.abc import Callable

from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.errors import ClusterAuthError, EnvironmentProblem

__all__ = ["FORBIDDEN", "Headers", "TokenFile", "impersonation"]

_TOKEN_FILE_NS = 60 * 1_000_000_000
_LARGEST_TOKEN = 1 << 20
# What may not stand in a header: it would end it, and begin whatever follows.
FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# What may stand in a header's name; the rest is escaped, and '%' with it, so that it can be read back.
_NAME_BYTES = frozenset(b"!#$&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

Headers = tuple[tuple[str, str], ...]


class TokenFile:
    """A token in a file, read again when it is a minute old; the last good one outlives a failure.

    A file that is longer than any token is such a failure: a part of it is no token.
    """

    def __init__(self, config: ClientConfig, monotonic: Callable[[], int]) -> None:
        self._path = config.token_file
        self._token = config.bearer_token.strip()
        self._monotonic = monotonic
        # Read at first use too: as in client-go, the file goes before a token that stands beside it.
        self._read_ns: int | None = None

    def read(self) -> str:
        """The token as the file has it, or had it last."""
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
    """The headers that act as another user; raises ClusterAuthError for what cannot be sent."""
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
            message = f"what {name} would say holds a control character and cannot be sent"
            raise ClusterAuthError(config.server, message, text, EnvironmentProblem(message, text))
    return tuple(headers)


def _escape_name(name: str) -> str:
    """Part of a header's name, as client-go escapes it."""
    encoded = name.encode("utf-8", "replace")
    return "".join(chr(byte) if byte in _NAME_BYTES else f"%{byte:02X}" for byte in encoded)
