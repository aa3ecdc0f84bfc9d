"""Credentials with their sources, and keyrings: which credentials match an image, and in which order they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from keyferry._core.docker_hub import LOGIN_HOST, is_default_registry
from keyferry._core.json import dumps
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, field
from keyferry.errors import MatchError
from keyferry.images.match import PatternIndex, normalise_key

# The fields of the credential that a runtime receives, in the order in which the kubelet hashes them.
_HASHED_FIELDS = (
    "username",
    "password",
    "auth",
    "email",
    "serveraddress",
    "identitytoken",
    "registrytoken",
)


class SecretRef(Value):
    """A reference to the pull secret of a credential."""

    namespace: str
    name: str
    uid: str


class SourceKind(StrEnum):
    """The kind of a credential's source."""

    PULL_SECRET = "pull secret"  # noqa: S105 - a word for one
    NODE_DOCKER_CONFIG = "node docker config"
    PROVIDER = "provider"


class ServiceAccountRef(Value):
    """A reference to the service account that a credential was obtained for."""

    namespace: str
    name: str
    uid: str


class Source(Value):
    """The source of a credential: a pull secret, the node's docker config, or a provider."""

    kind: SourceKind
    name: str
    secret: SecretRef | None = None
    service_account: ServiceAccountRef | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class Credential(Value):
    """A user name and password, with their source and auth key."""

    username: str
    password: str = field(repr=False)
    source: Source
    key: str
    email: str = ""

    @property
    def hash(self) -> str:
        """The hash of the credential as in the kubelet's pull records, which is not salted."""
        return credential_hash(self.username, self.password, self.email)


class DroppedKey(Value):
    """An auth key that does not parse; Kubernetes logs and ignores it."""

    # A plugin may have put a secret in place of a key.
    key: str = field(repr=False)
    why: str = field(repr=False)


class Keyring:
    """Credentials by auth key, from one or more sources in order."""

    __slots__ = ("_credentials", "_index", "dropped")

    def __init__(self) -> None:
        self._credentials: dict[str, list[Credential]] = {}
        # Of the keys in the order of trial; built by the first lookup.
        self._index: PatternIndex | None = None
        self.dropped: list[DroppedKey] = []

    def add(self, source: Source, entries: Iterable[tuple[str, str, str, str]]) -> None:
        """Add entries ``(auth key, username, password, email)`` of one source after the present ones."""
        for raw, username, password, email in entries:
            try:
                key = normalise_key(raw)
            except MatchError as error:
                self.dropped.append(DroppedKey(key=hide_user_info(raw), why=error.message))
                continue
            # User info in a key is a secret; the normalised key does not contain it.
            shown = key if "@" in raw else raw
            credential = Credential(
                username=username, password=password, source=source, key=shown, email=email
            )
            self._credentials.setdefault(key, []).append(credential)
        self._index = None

    def add_all(self, other: Keyring) -> None:
        """Add the credentials of another keyring after the present ones."""
        self.dropped += other.dropped
        for key in other.index():
            self._credentials.setdefault(key, []).extend(other.credentials(key))
        self._index = None

    def credentials(self, key: str) -> tuple[Credential, ...]:
        """Return the credentials of one key of the index, in the order in which they were added."""
        return tuple(self._credentials.get(key, ()))

    def index(self) -> list[str]:
        """Return all keys in the order in which they are tried: descending byte order of the whole text."""
        return sorted(self._credentials, reverse=True)

    def lookup(self, image: str) -> list[Credential]:
        """Return the credentials of every key that matches *image*, or those of the default registry if none does."""
        index = self._index
        if index is None:
            index = self._index = PatternIndex(enumerate(self.index()))
        found = [credential for _, key in index.match(image) for credential in self._credentials[key]]
        return found or list(self._credentials.get(LOGIN_HOST, ()) if is_default_registry(image) else ())


def join_keyrings(keyrings: Sequence[Keyring]) -> Keyring:
    """Return one keyring with the credentials of all *keyrings*, in order."""
    if len(keyrings) == 1:
        return keyrings[0]
    joined = Keyring()
    for keyring in keyrings:
        joined.add_all(keyring)
    return joined


def lookup_all(keyrings: Sequence[Keyring], image: str) -> list[Credential]:
    """Return the credentials of several keyrings, in order; each applies its own default registry rule."""
    return [credential for keyring in keyrings for credential in keyring.lookup(image)]


def credential_hash(username: str, password: str, email: str = "", **others: str) -> str:
    """Return the hash of a credential in a pull record; it has no salt, so a weak password can be guessed from it.

    A docker config supplies only these three fields; *others* are the remaining ones of a runtime's credential.
    """
    from hashlib import sha256

    fields = {"username": username, "password": password, "email": email} | others
    return sha256(hashed_json(fields).encode()).hexdigest()


def hashed_json(fields: Mapping[str, str]) -> str:
    """Return the text that is hashed: compact JSON with the fields in the kubelet's order, without empty ones."""
    return dumps({name: fields[name] for name in _HASHED_FIELDS if fields.get(name)})
