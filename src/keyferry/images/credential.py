"""Credentials as values, with their source and their hash in pull records."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.json import dumps
from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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


def credential_hash(username: str, password: str, email: str = "", **others: str) -> str:
    """Return the hash of a credential in a pull record; it has no salt, so a weak password can be guessed from it.

    A docker config supplies only these three fields; *others* are the remaining ones of a runtime's credential.
    """
    from hashlib import sha256  # imported here: few lookups are recorded

    fields = {"username": username, "password": password, "email": email} | others
    return sha256(hashed_json(fields).encode()).hexdigest()


def hashed_json(fields: Mapping[str, str]) -> str:
    """Return the text that is hashed: compact JSON with the fields in the kubelet's order, without empty ones."""
    return dumps({name: fields[name] for name in _HASHED_FIELDS if fields.get(name)})
