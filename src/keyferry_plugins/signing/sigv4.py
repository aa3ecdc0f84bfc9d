"""Signature Version 4: sign a request in its headers, or presign a URL, from the arguments only."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from time import gmtime, strftime

from keyferry._core.values import Value, field
from keyferry._net.forms import encode_percent, encode_query

_ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(Value):
    """Keys to sign with; *source* describes their origin, *expires_at* is in Unix seconds, or None if unknown."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    expires_at: float | None = None
    source: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain."""
        return tuple(filter(None, (self.secret_access_key, self.session_token)))


def sign_headers(
    credentials: Credentials,
    *,
    method: str,
    host: str,
    path: str = "/",
    query: str = "",
    headers: Mapping[str, str],
    body: bytes,
    region: str,
    service: str,
    now: float,
) -> dict[str, str]:
    """Return the *headers* of a request with those that sign it; *host* is the value of the Host header.

    *query* is the URL's, encoded and sorted by name.
    """
    stamp, scope = _stamp_and_scope(now, region, service)
    signed = {**headers, "X-Amz-Date": stamp}
    if credentials.session_token:
        signed["X-Amz-Security-Token"] = credentials.session_token
    names, lines = _canonical_headers({**signed, "Host": host})
    canonical = "\n".join(
        (
            method,
            encode_percent(path, safe="/") or "/",
            query,
            *lines,
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    signature = _signature(credentials, stamp, scope, canonical)
    signed["Authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key_id}/{scope},"
        f" SignedHeaders={names}, Signature={signature}"
    )
    return signed


def presign_url(
    credentials: Credentials,
    *,
    scheme: str = "https",
    host: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    region: str,
    service: str,
    expires_seconds: int,
    now: float,
) -> str:
    """Return a presigned URL for a GET of ``/``; the request must also send *headers*."""
    stamp, scope = _stamp_and_scope(now, region, service)
    names, lines = _canonical_headers({**headers, "Host": host})
    asked = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires_seconds),
        "X-Amz-SignedHeaders": names,
    }
    if credentials.session_token:
        asked["X-Amz-Security-Token"] = credentials.session_token
    canonical = "\n".join(
        ("GET", "/", encode_query(sorted(asked.items())), *lines, "", names, hashlib.sha256(b"").hexdigest())
    )
    signature = _signature(credentials, stamp, scope, canonical)
    return f"{scheme}://{host}/?{encode_query(asked)}&X-Amz-Signature={signature}"


def _stamp_and_scope(now: float, region: str, service: str) -> tuple[str, str]:
    stamp = strftime("%Y%m%dT%H%M%SZ", gmtime(now))
    return stamp, f"{stamp[:8]}/{region}/{service}/aws4_request"


def _canonical_headers(headers: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the signed names, and one line for each; runs of blanks are collapsed into one."""
    pairs = sorted((name.lower(), " ".join(value.split())) for name, value in headers.items())
    return ";".join(name for name, _ in pairs), [f"{name}:{value}" for name, value in pairs]


def _signature(credentials: Credentials, stamp: str, scope: str, canonical: str) -> str:
    key = b"AWS4" + credentials.secret_access_key.encode("utf-8", "surrogateescape")
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}"
    return hmac.digest(key, text.encode(), "sha256").hex()
