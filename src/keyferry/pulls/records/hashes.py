"""The kubelet's hashes: of credentials, unsalted, and of the names that its files have."""

from hashlib import sha256

from keyferry._core.json import dumps
from keyferry._core.values import Value, field

__all__ = ["RuntimeAuth", "file_name", "hash_auth", "hashed_json", "shorten"]

PREFIX = "sha256-"
_SHOWN = 8


class RuntimeAuth(Value):
    """What a runtime is given to pull with; of a docker config only user name, password and e-mail get here."""

    username: str = ""
    password: str = field(default="", repr=False)
    auth: str = field(default="", repr=False)
    email: str = ""
    server_address: str = ""
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)


def file_name(key: str) -> str:
    """The name of the file for an image, or for a runtime's reference to one."""
    return PREFIX + sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def hashed_json(auth: RuntimeAuth) -> str:
    """The text that is hashed: compact JSON, fields in the order of the class, empty ones left out."""
    document = {
        "username": auth.username,
        "password": auth.password,
        "auth": auth.auth,
        "email": auth.email,
        "serveraddress": auth.server_address,
        "identitytoken": auth.identity_token,
        "registrytoken": auth.registry_token,
    }
    return dumps({name: value for name, value in document.items() if value})


def hash_auth(auth: RuntimeAuth) -> str:
    """The hash of a credential as records hold it; it has no salt, so a weak password can be guessed from it."""
    return sha256(hashed_json(auth).encode()).hexdigest()


def shorten(credential_hash: str) -> str:
    """As much of a hash as tells two apart, and too little to guess the password from."""
    if len(credential_hash) <= _SHOWN:
        return credential_hash and "..."
    return credential_hash[:_SHOWN] + "..."
