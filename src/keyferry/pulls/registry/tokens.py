"""Turn a credential into an Authorization header: the registry's challenges, Basic, and tokens of its token server."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from threading import Lock

from keyferry._core.docker_hub import IDENTITY_TOKEN
from keyferry._core.json import loads
from keyferry._core.secrets import printable, redact
from keyferry._core.values import Value, field, replace
from keyferry._net.challenge import read_challenges
from keyferry._net.client import HttpResponse
from keyferry._net.forms import encode_form, encode_query
from keyferry._net.proxy import Origin
from keyferry.errors import DocumentError, HttpError, Kind, RegistryError
from keyferry.images.keyring import Credential
from keyferry.pulls.registry.transport import Admit, Transport, admit_server_named, find_realm

_MAX_CHALLENGES = 16
_MAX_CHARACTERS = 1 << 14
# Bearer first: with a token, the password is sent to the token server only.
_PREFERENCE = ("bearer", "basic")
_CLIENT = "keyferry"
_MAX_BYTES = 1 << 18
_MAX_ERROR_BYTES = 1 << 16
_MAX_WORDS = 300
_OK = 200
_REFUSALS = (401, 403)
_NO_GET = (404, 405)


class Challenge(Value):
    """An authentication scheme with its parameters; the scheme and the parameters' names are in lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, name: str) -> str:
        """Return the value of a parameter, or an empty string."""
        return self.parameters.get(name, "")


def parse_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Return all challenges of one or more headers, in order; the rest of a header after a syntax error is ignored."""
    found: list[Challenge] = []
    for value in values:
        found += [
            Challenge(scheme=scheme, parameters=parameters)
            for scheme, parameters in read_challenges(value[:_MAX_CHARACTERS])
        ]
    return tuple(found[:_MAX_CHALLENGES])


def choose_challenge(challenges: Iterable[Challenge]) -> Challenge | None:
    """Return the first Bearer challenge with a realm, else the first Basic challenge, else None."""
    usable = [one for one in challenges if one.scheme != "bearer" or one.parameter("realm")]
    for scheme in _PREFERENCE:
        for challenge in usable:
            if challenge.scheme == scheme:
                return challenge
    return None


class Authorizer:
    """The authorization of one credential, or None for anonymous access, with one registry.

    It answers the registry's challenges, and keeps the tokens for the duration of a pull. *asked_elsewhere* tells
    whether a token server on another host was asked.
    """

    def __init__(
        self, transport: Transport, registry: str, repository: str, credential: Credential | None
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._scope = f"repository:{repository}:pull"
        self._credential = credential
        self._lock = Lock()
        self._current = ""
        self._kept: dict[tuple[str, str, str], str] = {}
        self.was_asked = False
        self.asked_elsewhere = False

    @property
    def current(self) -> str:
        """The Authorization header for the next request; empty if the registry has not asked for one."""
        return self._current

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that are redacted in a server's messages."""
        headers = (self._current, *self._kept.values(), self._basic())
        words = [word for header in headers for word in header.split(" ")[1:]]
        words += self._transport.secrets
        return (*words, self._credential.password) if self._credential is not None else tuple(words)

    def renew(self, answer: HttpResponse, sent: str) -> bool:
        """Obtain the header that the challenge in *answer* requires, and return whether it is a new one.

        *sent* is the header that was refused. Return False if the challenge is not supported, or leads to the same
        header. Raise RegistryError, or HttpError if the token server cannot be reached.
        """
        self.was_asked = True
        challenge = choose_challenge(parse_challenges(answer.head.values("www-authenticate")))
        if challenge is None:
            return False
        with self._lock:
            header = self._basic() if challenge.scheme == "basic" else self._bearer(challenge, answer, sent)
            if not header or header == sent:
                return False
            self._current = header
            return True

    def _basic(self) -> str:
        """Return the Basic header, or an empty string without a credential or for an identity token."""
        credential = self._credential
        if credential is None or credential.username == IDENTITY_TOKEN:
            return ""
        pair = f"{credential.username}:{credential.password}".encode("utf-8", "surrogateescape")
        return f"Basic {b64encode(pair).decode()}"

    def _bearer(self, challenge: Challenge, answer: HttpResponse, sent: str) -> str:
        service, scope = challenge.parameter("service"), challenge.parameter("scope") or self._scope
        key = challenge.parameter("realm"), service, scope
        # Another thread may already have obtained a new token for the same challenge.
        if self._kept.get(key, sent) == sent:
            self._kept[key] = f"Bearer {self._fetch(challenge, answer, service, scope)}"
        return self._kept[key]

    def _fetch(self, challenge: Challenge, answer: HttpResponse, service: str, scope: str) -> str:
        fields = {"service": service, "scope": scope} if service else {"scope": scope}
        place = find_realm(
            self._registry, challenge.parameter("realm"), answer, allows_plain=self._transport.allows_plain
        )
        self.asked_elsewhere = self.asked_elsewhere or not self._transport.is_own(place)
        credential = self._credential
        if credential is not None and credential.username == IDENTITY_TOKEN:
            grant = {"grant_type": "refresh_token", "refresh_token": credential.password}
            return self._read_token(self._post(place, answer, {**grant, **fields}))
        reply = self._get(place, answer, fields)
        if reply.head.status in _NO_GET and credential is not None:
            reply.drain()
            grant = {"grant_type": "password", "username": credential.username}
            reply = self._post(place, answer, {**grant, "password": credential.password, **fields})
        return self._read_token(reply)

    def _get(self, place: Origin, answer: HttpResponse, fields: Mapping[str, str]) -> HttpResponse:
        mark = "&" if "?" in place.target else "?"
        place = replace(place, target=f"{place.target}{mark}{encode_query(fields)}")
        header = self._basic()
        return self._transport.request(
            place, "GET", {"Authorization": header} if header else {}, admit=self._admit(place, answer)
        )

    def _post(self, place: Origin, answer: HttpResponse, fields: Mapping[str, str]) -> HttpResponse:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        body = encode_form({**fields, "client_id": _CLIENT})
        return self._transport.request(place, "POST", headers, body, admit=self._admit(place, answer))

    def _admit(self, place: Origin, answer: HttpResponse) -> Admit:
        is_insecure = self._transport.allows_plain(place)
        return admit_server_named(self._registry, place, answer, is_insecure=is_insecure)

    def _read_token(self, reply: HttpResponse) -> str:
        with reply:
            if reply.head.status != _OK:
                raise self._refusal(reply)
            content = b"" if reply.head.value("content-encoding") else reply.read(_MAX_BYTES)
        token = _find_token(content)
        if not token:
            message = f"its token server {reply.origin.authority} sent a response without a usable token"
            raise RegistryError(self._registry, 0, message, Kind.CONTENT)
        return token

    def _refusal(self, reply: HttpResponse) -> RegistryError:
        status, server = reply.head.status, f"its token server {reply.origin.authority}"
        said = f"status {status}{read_words(reply, self.secrets)}"
        if status in _REFUSALS:
            who = "a request without a credential" if self._credential is None else "the credential"
            return RegistryError(self._registry, status, f"{server} refused {who} ({said})")
        # Redirects are not followed, so that the credential is not sent to another server.
        return RegistryError(self._registry, status, f"{server} gave no token ({said})", Kind.ERROR)


def _find_token(content: bytes) -> str:
    try:
        document = loads(content)
    except DocumentError:
        return ""
    found = document if isinstance(document, dict) else {}
    for name in ("token", "access_token"):
        token = found.get(name)
        if isinstance(token, str) and token and all("!" <= char <= "~" for char in token):
            return token
    return ""


def read_words(answer: HttpResponse, secrets: tuple[str, ...]) -> str:
    """Return a server's error message as ``: code: message``, redacted and shortened, or an empty string."""
    try:
        content = b"" if answer.head.value("content-encoding") else answer.read(_MAX_ERROR_BYTES)
        document = loads(content) if content else None
    except (DocumentError, HttpError):
        return ""
    errors = document.get("errors") if isinstance(document, dict) else None
    first = errors[0] if isinstance(errors, list) and errors else document
    if not isinstance(first, dict):
        return ""
    code, message = (first.get(name) for name in ("code", "message"))
    parts = [code.lower() if isinstance(code, str) and code.isidentifier() else "", message]
    # Redacted before shortening: the beginning of a cut secret would not be recognised.
    shown = [printable(" ".join(redact(part, secrets).split())) for part in parts if isinstance(part, str)]
    return "".join(f": {part[:_MAX_WORDS]}" for part in shown if part)
