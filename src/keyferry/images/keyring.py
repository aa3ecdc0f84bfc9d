"""The order of trial: which credentials serve an image, and which is tried first."""

from collections.abc import Iterable, Sequence

from keyferry._core.json import dumps
from keyferry._core.values import Value, field
from keyferry.errors import MatchError
from keyferry.images.match.rules import covers
from keyferry.images.match.url import hide_password, normalise_key
from keyferry.images.provider.accounts import ServiceAccountRef

DEFAULT_REGISTRY_KEY = "index.docker.io"
_DEFAULT_HOSTS = ("docker.io", "index.docker.io")


class SecretRef(Value):
    """Which pull secret a credential came from."""

    namespace: str
    name: str
    uid: str


class Source(Value):
    """Where a credential came from: a pull secret, the node's docker config, or a provider."""

    kind: str
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

    __slots__ = ("_credentials", "dropped")

    def __init__(self) -> None:
        self._credentials: dict[str, list[Credential]] = {}
        self.dropped: list[DroppedKey] = []

    def add(self, source: Source, entries: Iterable[tuple[str, str, str, str]]) -> None:
        """Add ``(auth key, username, password, email)`` of one source, after what is there already."""
        for raw, username, password, email in entries:
            try:
                key = normalise_key(raw)
            except MatchError as error:
                self.dropped.append(DroppedKey(hide_password(raw), error.message))
                continue
            # With user info in it, a key holds a secret of its own; what it is kept under does not.
            credential = Credential(username, password, source, key if "@" in raw else raw, email)
            self._credentials.setdefault(key, []).append(credential)

    def credentials(self, key: str) -> tuple[Credential, ...]:
        """What stands under one key of the index, in the order it was added."""
        return tuple(self._credentials.get(key, ()))

    def index(self) -> list[str]:
        """All keys, in the order they are tried: descending byte order of the whole text."""
        return sorted(self._credentials, reverse=True)

    def lookup(self, image: str) -> list[Credential]:
        """The credentials of every key that covers *image*; only if there is none, the default registry's."""
        if len(self._credentials) == 1:
            keys: Iterable[str] = self._credentials
        else:
            keys = self.index()
        found = [credential for key in keys if covers(key, image) for credential in self._credentials[key]]
        if not found and is_default_registry(image):
            return list(self._credentials.get(DEFAULT_REGISTRY_KEY, ()))
        return found


def lookup_all(keyrings: Sequence[Keyring], image: str) -> list[Credential]:
    """The union of several keyrings: each looks for itself, fallback included, in the order given."""
    return [credential for keyring in keyrings for credential in keyring.lookup(image)]


def is_default_registry(image: str) -> bool:
    """Tell whether an image counts as one of Docker Hub for the fallback key.

    The first component decides: a host has a '.' or a ':'. So ``localhost/x`` counts too, as in Kubernetes.
    """
    first, slash, _ = image.partition("/")
    if not first:
        return False
    if not slash or first in _DEFAULT_HOSTS:
        return True
    return "." not in first and ":" not in first


def credential_hash(username: str, password: str, email: str = "") -> str:
    """SHA-256, in hexadecimal, of the credential's compact JSON; empty fields are left out."""
    from hashlib import sha256  # only here: few look-ups are recorded

    document = {"username": username, "password": password, "email": email}
    return sha256(dumps({name: value for name, value in document.items() if value}).encode()).hexdigest()
