"""An OpenID Connect issuer with real HTTP, TLS and signatures, which a test can make return wrong data."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.fake_cloud import Authority, Received, Reply, segment, serving

CLIENT, SECRET, USER = "my-client", "s3cret/with:odd chars", "alice"
KEYS = (rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 2048))
CURVE_KEY = ec.generate_private_key(ec.SECP256R1())
Answer = Reply | Callable[[Received], Reply]


def public_pem(key: rsa.RSAPrivateKey) -> bytes:
    """Return the public half of a key as PEM."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def sign(claims: Mapping[str, object], algorithm: str = "RS256", key: rsa.RSAPrivateKey = KEYS[0]) -> str:
    """Return a token of *claims*; ``HS256`` uses the public key as its secret, ``none`` has no signature."""
    head = {"alg": algorithm, "kid": "curve" if algorithm == "ES256" else "one", "typ": "JWT"}
    signed = ".".join(segment(json.dumps(part).encode()) for part in (head, dict(claims)))
    return f"{signed}.{segment(_signature(signed.encode(), algorithm, key))}"


def _signature(signed: bytes, algorithm: str, key: rsa.RSAPrivateKey) -> bytes:
    if algorithm.lower() == "none":
        return b""
    if algorithm == "HS256":
        return hmac.digest(public_pem(key), signed, "sha256")
    if algorithm == "ES256":
        halves = decode_dss_signature(CURVE_KEY.sign(signed, ec.ECDSA(hashes.SHA256())))
        return b"".join(half.to_bytes(32, "big") for half in halves)
    return key.sign(signed, padding.PKCS1v15(), hashes.SHA256())


def key_set() -> dict[str, object]:
    """Return the public keys as the issuer publishes them."""
    numbers, point = KEYS[0].public_key().public_numbers(), CURVE_KEY.public_key().public_numbers()
    one = {"kty": "RSA", "kid": "one", "use": "sig", "n": _number(numbers.n), "e": _number(numbers.e)}
    curve = {
        "kty": "EC",
        "kid": "curve",
        "crv": "P-256",
        "x": _number(point.x, 32),
        "y": _number(point.y, 32),
    }
    return {"keys": [one, curve]}


def _number(value: int, size: int = 0) -> str:
    return segment(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class FakeIssuer:
    """The behaviour of the issuer; a test changes the attributes that it needs to."""

    def __init__(self, authority: Authority | None = None) -> None:
        self.url = ""
        self._authority = authority
        self.metadata: dict[str, object] = {}
        self.answers: dict[str, list[Answer]] = {"/token": [], "/device": [], "/keys": []}
        self.received: list[Received] = []
        self.discovery: Reply | None = None

    @property
    def authority(self) -> Authority:
        """The authority of its certificate, if it has one."""
        assert self._authority is not None
        return self._authority

    @property
    def trust(self) -> list[str]:
        """The flags of keyferry-oidc that trust its certificate."""
        return ["--certificate-authority", str(self._authority.bundle)] if self._authority else []

    @property
    def document(self) -> dict[str, object]:
        """The discovery document."""
        document = {
            "issuer": self.url,
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "device_authorization_endpoint": f"{self.url}/device",
            "authorization_endpoint": f"{self.url}/authorize",
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "code_challenge_methods_supported": ["S256"],
        }
        return {name: value for name, value in {**document, **self.metadata}.items() if value is not None}

    def claims(self, **changes: object) -> dict[str, object]:
        """Return valid claims with *changes*; a value of None removes the claim."""
        now = int(time.time())
        right = {"iss": self.url, "sub": USER, "aud": CLIENT, "iat": now, "exp": now + 300}
        return {name: value for name, value in {**right, **changes}.items() if value is not None}

    def give(self, path: str, *answers: Answer) -> None:
        """Set the responses of an endpoint, one after the other; the last one is repeated."""
        self.answers[path] = [*answers]

    def tokens(self, id_token: str = "", **more: object) -> Reply:
        """Return the success of a token endpoint."""
        document = {"token_type": "Bearer", "id_token": id_token or sign(self.claims()), **more}
        return Reply(document={name: value for name, value in document.items() if value is not None})

    def asked(self, path: str) -> list[Received]:
        """Return the requests to an endpoint."""
        return [request for request in self.received if request.path == path]

    def answer(self, request: Received) -> Reply:
        """Answer a request, if the endpoint accepts it."""
        self.received.append(request)
        if request.path == "/.well-known/openid-configuration":
            assert request.method == "GET"
            return self.discovery or Reply(document=self.document)
        planned = self.answers[request.path]
        if request.path == "/keys":
            assert request.method == "GET"
            return self._next(planned, request) if planned else Reply(document=key_set())
        assert request.method == "POST"
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        assert "?" not in request.target, "a secret may be in a query"
        return self._next(planned, request) if planned else self.tokens()

    @staticmethod
    def _next(planned: list[Answer], request: Received) -> Reply:
        answer = planned.pop(0) if len(planned) > 1 else planned[0]
        return answer if isinstance(answer, Reply) else answer(request)


def refused(code: str, description: str = "", status: int = 400) -> Reply:
    """Return an OAuth error."""
    return Reply(status, document={"error": code, "error_description": description})


def device(issuer: FakeIssuer, **changes: object) -> Reply:
    """Return the success of a device endpoint with *changes*; a value of None removes the field."""
    right = {
        "device_code": "secret-device-code",
        "user_code": "WDJB-MJHT",
        "verification_uri": f"{issuer.url}/activate",
        "expires_in": 60,
        "interval": 1,
    }
    return Reply(document={name: value for name, value in {**right, **changes}.items() if value is not None})


def challenge_of(verifier: str) -> str:
    """Return the PKCE challenge of a verifier."""
    return segment(sha256(verifier.encode()).digest())


@contextmanager
def issuing(authority: Authority | None, name: str = "127.0.0.1") -> Iterator[FakeIssuer]:
    """Yield an issuer on loopback for the length of a block; an unexpected request fails the test at the end.

    *name* is the name in its certificate.
    """
    issuer = FakeIssuer(authority)
    context = authority.context(name) if authority else None
    with serving(issuer.answer, context) as server:
        issuer.url = server.url
        yield issuer
