"""A registry's token server, which returns signed tokens for user names and passwords."""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from support.fake_cloud import Received, Reply, serving
from support.registry import TokenAuth

SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

SERVICE, ISSUER = "test-registry", "test-issuer"
LIFETIME_SECONDS = 300


class TokenServer:
    """A server that gives tokens to its users by GET with Basic, and by POST of OAuth's form, and refuses others.

    Its tokens are signed with *key*, by default one of its own. *asked* has, for each request, its method, the user's
    name and the scopes.
    """

    def __init__(self, folder: Path, key: SigningKey | None = None) -> None:
        self.users: dict[str, str] = {}
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []
        self.certificate = folder / "tokens.pem"
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self.certificate.write_bytes(_certify(self._key).public_bytes(Encoding.PEM))

    def answer(self, request: Received) -> Reply:
        """Answer one request for a token."""
        user, password, scopes = _read(request)
        self.asked.append((request.method, user, scopes))
        if not user or self.users.get(user) != password:
            return Reply(401, {"errors": [{"code": "UNAUTHORIZED", "message": "bad credentials"}]})
        token = self.token(user, scopes)
        return Reply(document={"token": token, "access_token": token, "expires_in": LIFETIME_SECONDS})

    def token(self, user: str, scopes: tuple[str, ...]) -> str:
        """Return a token that allows *user* the given scopes."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": user,
            "aud": SERVICE,
            "iat": now,
            "nbf": now - 5,
            "exp": now + LIFETIME_SECONDS,
            "jti": uuid.uuid4().hex,
            "access": [_access(scope) for scope in scopes],
        }
        algorithm = "RS256" if isinstance(self._key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(claims, self._key, algorithm, {"kid": _key_id(self._key.public_key())})


def _read(request: Received) -> tuple[str, str, tuple[str, ...]]:
    """Return user name, password and scopes of a request."""
    if request.method == "POST":
        form = parse_qs(request.body.decode())
        user, password = form.get("username", [""])[0], form.get("password", [""])[0]
        return user, password, tuple(" ".join(form.get("scope", [])).split())
    assert request.method == "GET"
    scopes = tuple(" ".join(parse_qs(request.target.partition("?")[2]).get("scope", [])).split())
    kind, _, pair = request.headers.get("authorization", "").partition(" ")
    user, _, password = base64.b64decode(pair).decode().partition(":") if kind == "Basic" else ("", "", "")
    return user, password, scopes


def _access(scope: str) -> Mapping[str, object]:
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    return {"type": kind, "name": name, "actions": actions.split(",")}


def _key_id(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> str:
    """Return a key's id in the registry's format: twelve groups of four letters of its hash."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    letters = base64.b32encode(hashlib.sha256(der).digest()[:30]).decode()
    return ":".join(letters[at : at + 4] for at in range(0, 48, 4))


def _certify(key: SigningKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokens")])
    now = datetime.now(UTC)
    span = now - timedelta(days=1), now + timedelta(days=30)
    return x509.CertificateBuilder(name, name, key.public_key(), 1, *span).sign(key, hashes.SHA256())


@contextmanager
def token_server(folder: Path) -> Iterator[tuple[TokenServer, TokenAuth]]:
    """Yield a token server for the length of a block, and the settings for a registry to trust it."""
    tokens = TokenServer(folder)
    with serving(tokens.answer) as server:
        yield tokens, TokenAuth(f"{server.url}/token", SERVICE, ISSUER, tokens.certificate)
