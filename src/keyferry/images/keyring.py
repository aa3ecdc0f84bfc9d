"""The order of trial: which credentials serve an image, and which is tried first."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

from keyferry._core.docker_hub import LOGIN_HOST, is_default_registry
from keyferry._core.json import dumps
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, field
from keyferry.errors import MatchError
from keyferry.images.match.index import PatternIndex
from keyferry.images.match.rules import covers
from keyferry.images.match.url import normalise_key


class SecretRef(Value):
    """Which pull secret a credential came from."""

    namespace: str
    name: str
    uid: str


class SourceKind(StrEnum):
    """What kind of source a credential came from."""

    PULL_SECRET = "pull secret"  # noqa: S105 - a word for one
    NODE_DOCKER_CONFIG = "node docker config"
    PROVIDER = "provider"


class ServiceAccountRef(Value):
    """Which account a credential was obtained for."""

    namespace: str
    name: str
    uid: str


class Source(Value):
    """Where a credential came from: a pull secret, the node's docker config, or a provider."""

    kind: SourceKind
    name: str
    secret: SecretRef | None = None
    service_account: ServiceAccountRef | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class Credential(Value):
    """One user name and password to try, with where it came from and the auth key it stands under."""

    username: str
    password: str = field(repr=False)
    source: Source
    key: str
    email: str = ""

    @property
    def hash(self) -> str:
        """The kubelet's unsalted hash of a credential, as in its pull records."""
        return credential_hash(self.username, self.password, self.email)


class DroppedKey(Value):
    """An auth key that does not parse; Kubernetes logs it and goes on."""

    # A plugin may have put anything at all in the place of a key.
    key: str = field(repr=False)
    why: str = field(repr=False)


class Keyring:
    """Credentials by auth key, from one or more sources in order."""

    __slots__ = ("_credentials", "_keys", "_patterns", "dropped")

    def __init__(self) -> None:
        self._credentials: dict[str, list[Credential]] = {}
        # Both are made when they are needed: the keys in the order of trial, and what finds those that cover.
        self._keys: list[str] | None = None
        self._patterns: PatternIndex | None = None
        self.dropped: list[DroppedKey] = []

    def add(self, source: Source, entries: Iterable[tuple[str, str, str, str]]) -> None:
        """Add ``(auth key, username, password, email)`` of one source, after what is there already."""
        for raw, username, password, email in entries:
            try:
                key = normalise_key(raw)
            except MatchError as error:
                self.dropped.append(DroppedKey(hide_user_info(raw), error.message))
                continue
            # With user info in it, a key holds a secret of its own; what it is kept under does not.
            credential = Credential(username, password, source, key if "@" in raw else raw, email)
            self._credentials.setdefault(key, []).append(credential)
        self._keys = self._patterns = None

    def add_all(self, other: "Keyring") -> None:
        """Add what another keyring holds, after what is there already."""
        self.dropped += other.dropped
        for key in other.index():
            self._credentials.setdefault(key, []).extend(other.credentials(key))
        self._keys = self._patterns = None

    def credentials(self, key: str) -> tuple[Credential, ...]:
        """What stands under one key of the index, in the order it was added."""
        return tuple(self._credentials.get(key, ()))

    def index(self) -> list[str]:
        """All keys, in the order they are tried: descending byte order of the whole text."""
        return sorted(self._credentials, reverse=True)

    def lookup(self, image: str) -> list[Credential]:
        """The credentials of every key that covers *image*; only if there is none, the default registry's."""
        if len(self._credentials) == 1:
            [(key, found)] = self._credentials.items()
            if covers(key, image):
                return found.copy()
        else:
            found = [credential for key in self._covering(image) for credential in self._credentials[key]]
            if found:
                return found
        return list(self._credentials.get(LOGIN_HOST, ())) if is_default_registry(image) else []

    def _covering(self, image: str) -> Iterable[str]:
        if self._patterns is not None:
            return [key for _, key in self._patterns.find(image)]
        if self._keys is None:
            self._keys = self.index()
            return [key for key in self._keys if covers(key, image)]
        # Asked for the second time: this keyring stays, and many keys are worth an index.
        self._patterns = PatternIndex(enumerate(self._keys))
        return self._covering(image)


def join_keyrings(keyrings: Sequence[Keyring]) -> Keyring:
    """One keyring with what all of them hold, in order."""
    if len(keyrings) == 1:
        return keyrings[0]
    joined = Keyring()
    for keyring in keyrings:
        joined.add_all(keyring)
    return joined


def lookup_all(keyrings: Sequence[Keyring], image: str) -> list[Credential]:
    """The union of several keyrings: each looks for itself, fallback included, in the order given."""
    if len(keyrings) == 1:
        return keyrings[0].lookup(image)
    return [credential for keyring in keyrings for credential in keyring.lookup(image)]


def credential_hash(username: str, password: str, email: str = "") -> str:
    """SHA-256, in hexadecimal, of the credential's compact JSON; empty fields are left out."""
    from hashlib import sha256  # only here: few look-ups are recorded

    document = {"username": username, "password": password, "email": email}
    return sha256(dumps({name: value for name, value in document.items() if value}).encode()).hexdigest()
