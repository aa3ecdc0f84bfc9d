"""The kubelet's hashes: of credentials, without a salt, and of image names, for the names of its files."""

from hashlib import sha256

from keyferry._core.json import dumps
from keyferry._core.values import Value, field

__all__ = ["RuntimeAuth", "file_name", "hash_auth", "hashed_json", "shorten"]

PREFIX = "sha256-"
_SHOWN = 8


class RuntimeAuth(Value):
    """The credential that a runtime receives; a docker config supplies only the user name, password and e-mail."""

    username: str = ""
    password: str = field(default="", repr=False)
    auth: str = field(default="", repr=False)
    email: str = ""
    server_address: str = ""
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)


def file_name(key: str) -> str:
    """Return the name of the file for an image, or for a runtime's reference."""
    return PREFIX + sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def hashed_json(auth: RuntimeAuth) -> str:
    """Return the text that is hashed: compact JSON, with the fields in the order of the class, without empty ones."""
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
    """Return the hash of a credential for a record; it has no salt, so a weak password can be guessed from it."""
    return sha256(hashed_json(auth).encode()).hexdigest()


def shorten(credential_hash: str) -> str:
    """Return the beginning of a hash: enough to distinguish two, too little to guess the password from."""
    if len(credential_hash) <= _SHOWN:
        return credential_hash and "..."
    return credential_hash[:_SHOWN] + "..."
