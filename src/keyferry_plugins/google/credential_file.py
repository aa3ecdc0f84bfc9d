"""A Google credential file: a JSON object, with accessors whose errors name the missing member."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.json import read_object
from keyferry._core.values import Value, field
from keyferry.sdk import ProvideError
from keyferry.sdk.files import read_bounded

_MAX_BYTES = 1 << 20


class CredentialFile(Value):
    """The members of an object in a credential file, and its name in messages."""

    where: str
    members: Mapping[str, object] = field(repr=False)

    def text(self, name: str, default: str = "") -> str:
        """Return a string member, or the default if it is missing or empty."""
        value = self.members.get(name)
        if value is not None and not isinstance(value, str):
            raise ProvideError(f"{self.where}: {name} is not a string")
        return value or default

    def need(self, name: str) -> str:
        """Return a required string member; raise ProvideError if it is missing."""
        value = self.text(name)
        if not value:
            raise ProvideError(f"{self.where}: {name} is missing", "create the file again")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a member that is a list of strings; empty if it is missing."""
        value = self.members.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ProvideError(f"{self.where}: {name} is not a list of strings")
        return tuple(value)

    def number(self, name: str, default: int) -> int:
        """Return a member that is a whole number, or the default."""
        value = self.members.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise ProvideError(f"{self.where}: {name} is not a whole number")
        return value

    def part(self, name: str) -> CredentialFile | None:
        """Return a member that is an object, or None if it is missing."""
        value = self.members.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ProvideError(f"{self.where}: {name} is not an object")
        return CredentialFile(where=f"{self.where}: {name}", members=value)


def load_credential_file(path: str) -> CredentialFile:
    """Read the file at *path*; raise ProvideError, which quotes none of it, if it is invalid."""
    data = read_bounded(path, "the credential file", _MAX_BYTES)
    document = read_object(data)
    if document is None:
        raise ProvideError(f"the credential file {path!r} is not a JSON object")
    return CredentialFile(where=f"the credential file {path!r}", members=document)


def principal(url: str) -> str:
    """Return the e-mail address in an impersonation URL, or an empty string."""
    _, _, rest = url.partition("/serviceAccounts/")
    email, mark, _ = rest.rpartition(":generateAccessToken")
    return email if mark and "@" in email and "/" not in email else ""
