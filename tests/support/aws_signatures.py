"""The server's side of Signature Version 4, written from the definition, independent of the code under test."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

from support.fake_cloud import Received

TOLERATED_SECONDS = 300


def check_signature(received: Received, secrets: Mapping[str, str], service: str, region: str) -> str:
    """Check the Authorization header of a request; return the access key it was signed with."""
    algorithm, _, rest = received.headers["authorization"].partition(" ")
    assert algorithm == "AWS4-HMAC-SHA256"
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    key, *scope = parts["Credential"].split("/")
    stamp = received.headers["x-amz-date"]
    _check_scope(scope, stamp, service, region)
    names = parts["SignedHeaders"].split(";")
    assert names == sorted(names)
    needed = {"host", "content-type", "x-amz-date"} | ({"x-amz-target"} & received.headers.keys())
    assert needed | ({"x-amz-security-token"} & received.headers.keys()) <= set(names)
    assert key in secrets, f"unknown access key {key}"
    lines = [f"{name}:{' '.join(received.headers[name].split())}\n" for name in names]
    body_hash = hashlib.sha256(received.body).hexdigest()
    canonical = (
        f"{received.method}\n{quote(received.path)}\n\n{''.join(lines)}\n{';'.join(names)}\n{body_hash}"
    )
    assert hmac.compare_digest(_sign(secrets[key], stamp, scope, canonical), parts["Signature"])
    return key


def check_presigned(url: str, headers: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """Check a presigned URL as STS would on a GET with *headers*; return its query."""
    split = urlsplit(url)
    pairs = parse_qsl(split.query, keep_blank_values=True, strict_parsing=True)
    query = dict(pairs)
    assert len(query) == len(pairs)
    signature = query.pop("X-Amz-Signature")
    key, *scope = query["X-Amz-Credential"].split("/")
    stamp = query["X-Amz-Date"]
    _check_scope(scope, stamp, "sts", scope[1])
    names = query["X-Amz-SignedHeaders"].split(";")
    sent = {**headers, "host": split.netloc}
    lines = [f"{name}:{sent[name]}\n" for name in names]
    escaped = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    asked = "&".join(f"{name}={value}" for name, value in escaped)
    canonical = (
        f"GET\n{split.path}\n{asked}\n{''.join(lines)}\n{';'.join(names)}\n{hashlib.sha256(b'').hexdigest()}"
    )
    assert hmac.compare_digest(_sign(secrets[key], stamp, scope, canonical), signature)
    return query


def _check_scope(scope: list[str], stamp: str, service: str, region: str) -> None:
    assert scope == [stamp[:8], region, service, "aws4_request"], scope
    signed = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - signed).total_seconds()) < TOLERATED_SECONDS, "the signature is too old"


def _sign(secret: str, stamp: str, scope: list[str], canonical: str) -> str:
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{'/'.join(scope)}\n{digest}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
