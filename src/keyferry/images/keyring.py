"""Keyrings: which credentials cover an image, and in which order they are tried."""

from __future__ import annotations

from keyferry._core.docker_hub import LOGIN_HOST, is_default_registry
from keyferry._core.user_info import hide_user_info
from keyferry.errors import MatchError
from keyferry.images.credential import Credential, DroppedKey, Source
from keyferry.images.match.index import PatternIndex
from keyferry.images.match.rules import covers
from keyferry.images.match.url import normalise_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Keyring:
    """Credentials by auth key, from one or more sources in order."""

    __slots__ = ("_credentials", "_keys", "_patterns", "dropped")

    def __init__(self) -> None:
        self._credentials: dict[str, list[Credential]] = {}
        # Built on demand: the keys in the order of trial, and an index of them.
        self._keys: list[str] | None = None
        self._patterns: PatternIndex | None = None
        self.dropped: list[DroppedKey] = []

    def add(self, source: Source, entries: Iterable[tuple[str, str, str, str]]) -> None:
        """Add entries ``(auth key, username, password, email)`` of one source after the present ones."""
        for raw, username, password, email in entries:
            try:
                key = normalise_key(raw)
            except MatchError as error:
                self.dropped.append(DroppedKey(hide_user_info(raw), error.message))
                continue
            # User info in a key is a secret; the normalised key does not contain it.
            credential = Credential(username, password, source, key if "@" in raw else raw, email)
            self._credentials.setdefault(key, []).append(credential)
        self._keys = self._patterns = None

    def add_all(self, other: Keyring) -> None:
        """Add the credentials of another keyring after the present ones."""
        self.dropped += other.dropped
        for key in other.index():
            self._credentials.setdefault(key, []).extend(other.credentials(key))
        self._keys = self._patterns = None

    def credentials(self, key: str) -> tuple[Credential, ...]:
        """Return the credentials of one key of the index, in the order in which they were added."""
        return tuple(self._credentials.get(key, ()))

    def index(self) -> list[str]:
        """Return all keys in the order in which they are tried: descending byte order of the whole text."""
        return sorted(self._credentials, reverse=True)

    def lookup(self, image: str) -> list[Credential]:
        """Return the credentials of every key that covers *image*, or those of the default registry if none does."""
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
        # From the second lookup on, an index is faster than a search through many keys.
        self._patterns = PatternIndex(enumerate(self._keys))
        return self._covering(image)


EMPTY = Keyring()


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
