"""Service account tokens that callers pass on: the key and the end of the answers that are got with them."""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Callable, Mapping

from keyferry._core.clock import monotonic_ns
from keyferry._core.jwt_claims import JwtError, read_claims
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.provider.accounts import Relayed

__all__ = ["Tenants"]

_SECOND = 1_000_000_000
_LAST_SECOND = 1 << 40


class Tenants:
    """Makes keys of tokens. Only a caller with the same whole token finds an answer, and only in this process.

    Nobody here can verify a token, so its claims are never part of a key: anybody could write them. Its ``exp`` only
    shortens the life of an answer.
    """

    def __init__(
        self,
        secret: bytes | None = None,
        *,
        clock: Callable[[], int] = monotonic_ns,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = os.urandom(32) if secret is None else secret
        self._clock = clock
        self._wall_clock = wall_clock

    def relay(
        self, token: str, annotations: Mapping[str, str], account: ServiceAccountRef | None = None
    ) -> Relayed:
        """Return what stands for a pod in a lookup with this token; the token is not empty."""
        return Relayed(
            token=token,
            annotations=annotations,
            key=self._key(token, annotations),
            until_ns=self._until_ns(token),
            ref=account,
        )

    def _key(self, token: str, annotations: Mapping[str, str]) -> bytes:
        # Annotations are a part of the plugin's input, so they are a part of the key.
        texts = [token, *(text for pair in sorted(annotations.items()) for text in pair)]
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._secret, message, "sha256")

    def _until_ns(self, token: str) -> int | None:
        """Return the expiry of a token on the monotonic clock; None if it names none, or is no token that does."""
        try:
            end = read_claims(token, is_strict=False).get("exp")
        except JwtError:
            return None
        if not isinstance(end, int | float) or isinstance(end, bool) or not 0 < end < _LAST_SECOND:
            return None
        return self._clock() + int((end - self._wall_clock()) * _SECOND)
