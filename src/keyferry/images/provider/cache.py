"""A cache of credentials as in the kubelet: by image, by registry or global, per service account."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Container, Mapping
from itertools import count

from keyferry._core.values import Value
from keyferry.errors import ServiceAccountError
from keyferry.images.answer import Auth, Provision
from keyferry.images.reference import registry_of

# In the order in which the kubelet looks for them.
CACHE_KEY_TYPES = ("Image", "Registry", "Global")
GLOBAL_KEY = "<global>"
SWEEP_INTERVAL_NS = 15 * 60 * 1_000_000_000
_MAX_PART_BYTES = 0xFFFF
MAX_BYTES = 64 * 1024 * 1024
# The memory of an entry, and of each credential, beside their texts, as tracemalloc shows.
_ENTRY_BYTES = 2400
# One sequence for all caches of the process.
_numbers = count(1)


class CacheEntry(Value):
    """A cached answer with the image of its run; it is shared if any lookup may get it, not just one account's.

    A renewed answer keeps the number of the one it replaces; the agent's page uses it as identity.
    """

    image: str
    provision: Provision
    is_shared: bool
    size: int
    number: int

    @property
    def base(self) -> str:
        """The first part of its key."""
        return base_key(self.provision.cache_key_type, self.image)

    @property
    def scope(self) -> str:
        """The images that it is for, in words: one image, a registry, or every image."""
        return "every image" if self.base == GLOBAL_KEY else self.base

    @property
    def expires_ns(self) -> int:
        """The last instant at which it is valid, on the provider's clock."""
        assert self.provision.expires_ns is not None  # noqa: S101 - an answer without one is not cached
        return self.provision.expires_ns


class CacheLimits(Value):
    """The most entries and bytes of a provider's cache."""

    entries: int = 10_000
    bytes: int = MAX_BYTES


DEFAULT_LIMITS = CacheLimits()


class CacheUse(Value):
    """The entries of a cache and their approximate memory, each with its limit; *valid* entries have not expired."""

    entries: int
    valid: int
    bytes: int
    limits: CacheLimits


class Cache:
    """The cached answers of one provider; it is not thread-safe, so callers hold a lock.

    The kubelet's cache is unbounded; this one drops its oldest entries when their number or size exceeds a limit.
    """

    __slots__ = ("_bytes", "_entries", "_last_sweep_ns", "_limits")

    def __init__(self, now_ns: int, limits: CacheLimits = DEFAULT_LIMITS) -> None:
        # Not a plain dictionary, in which finding the oldest entry passes all dropped entries.
        self._entries: OrderedDict[bytes, CacheEntry] = OrderedDict()
        self._bytes = 0
        self._last_sweep_ns = now_ns
        self._limits = limits

    def __len__(self) -> int:
        return len(self._entries)

    def use(self, now_ns: int) -> CacheUse:
        """Return how full the cache is; entries that have expired take room until they are dropped."""
        valid = len(self.answers(now_ns))
        return CacheUse(entries=len(self._entries), valid=valid, bytes=self._bytes, limits=self._limits)

    def answers(self, now_ns: int) -> tuple[CacheEntry, ...]:
        """Return the entries that have not expired, oldest first."""
        return tuple([entry for entry in self._entries.values() if entry.expires_ns >= now_ns])

    def has_answers(self, now_ns: int) -> bool:
        """Return whether an entry has not expired."""
        return any(entry.expires_ns >= now_ns for entry in self._entries.values())

    def find(self, image: str, account_key: bytes, now_ns: int) -> Provision | None:
        """Return the entry for *image*, else that for its registry, else the global one, else None."""
        if now_ns - self._last_sweep_ns > SWEEP_INTERVAL_NS:
            self._sweep(now_ns)
        for cache_key_type in CACHE_KEY_TYPES:
            key = cache_key(base_key(cache_key_type, image), account_key)
            entry = self._entries.get(key)
            if entry is None:
                continue
            if now_ns <= entry.expires_ns:
                return entry.provision
            self._drop(key)
        return None

    def store(self, image: str, account_key: bytes, provision: Provision) -> CacheEntry | None:
        """Store an answer under the key of its cache key type; return its entry.

        An answer without an expiry, or larger than the whole cache, is not stored, and None is returned.
        """
        if provision.expires_ns is None:
            return None
        key = cache_key(base_key(provision.cache_key_type, image), account_key)
        before = self._entries.get(key)
        if before is not None:
            self._drop(key)
        size = _ENTRY_BYTES + len(key) + auth_bytes(provision.auth)
        if size > self._limits.bytes:
            return None
        while len(self._entries) >= self._limits.entries or self._bytes + size > self._limits.bytes:
            self._bytes -= self._entries.popitem(last=False)[1].size
        number = next(_numbers) if before is None else before.number
        entry = CacheEntry(
            image=image, provision=provision, is_shared=not account_key, size=size, number=number
        )
        self._entries[key] = entry
        self._bytes += size
        return entry

    def evict(self, image: str, username: str, password: str, keep: Container[bytes] = ()) -> list[bytes]:
        """Drop all entries for an image that contain this credential; return their keys.

        Entries whose keys are in *keep* are not dropped.
        """
        bases = {base_key(cache_key_type, image) for cache_key_type in CACHE_KEY_TYPES}
        refused = [
            key
            for key, entry in self._entries.items()
            if key not in keep
            and entry.base in bases
            and any(
                auth.username == username and auth.password == password
                for auth in entry.provision.auth.values()
            )
        ]
        for key in refused:
            self._drop(key)
        return refused

    def soonest_expiry_ns(self, now_ns: int) -> int | None:
        """Return the earliest expiry of the entries that have not expired, or None."""
        return min(
            (entry.expires_ns for entry in self._entries.values() if entry.expires_ns >= now_ns), default=None
        )

    def _sweep(self, now_ns: int) -> None:
        for key in [key for key, entry in self._entries.items() if now_ns > entry.expires_ns]:
            self._drop(key)
        self._last_sweep_ns = now_ns

    def _drop(self, key: bytes) -> None:
        self._bytes -= self._entries.pop(key).size


def auth_bytes(auth: Auth) -> int:
    """Return the approximate memory of credentials."""
    return sum(
        _ENTRY_BYTES + len(key) + len(entry.username) + len(entry.password) for key, entry in auth.items()
    )


def base_key(cache_key_type: str, image: str) -> str:
    """Return the first part of the cache key for an answer of this type."""
    if cache_key_type == "Image":
        return image
    return registry_of(image) if cache_key_type == "Registry" else GLOBAL_KEY


def shares_cache_key(cache_key_type: str, asked: str, image: str) -> bool:
    """Return whether an answer of this type for *asked* is also valid for *image*."""
    return base_key(cache_key_type, asked) == base_key(cache_key_type, image)


def cache_key(base: str, account_key: bytes) -> bytes:
    """Return both parts, each after its length, so that different pairs have different keys."""
    return _text(base) + _bytes(account_key)


def account_cache_key(
    *,
    namespace: str,
    name: str,
    uid: str,
    annotations: Mapping[str, str],
    token_hash: str,
    cache_type: str,
) -> bytes:
    """Return the part of a cache key for a service account, or for one of its tokens if the type is ``Token``."""
    key = _text(namespace) + _text(name) + _text(uid) + _annotations(annotations)
    if cache_type == "Token":
        key += _text("token") + _text(token_hash)
    return key


def run_key(image: str, others: bytes) -> bytes:
    """Return a key that is equal for lookups that can share a plugin run; *others* are their `other_inputs`."""
    return _text(image) + others


def other_inputs(token_hash: str, annotations: Mapping[str, str]) -> bytes:
    """Return the inputs of a plugin run other than the image, for use in keys."""
    return _text(token_hash) + _annotations(annotations) if token_hash or annotations else NO_OTHER_INPUTS


def hash_token(token: str) -> str:
    """Return the hash of a token for use in keys; the empty token stays empty."""
    if not token:
        return ""
    from hashlib import sha256

    return f"sha256:{sha256(token.encode('utf-8', 'surrogateescape')).hexdigest()}"


_EMPTY = bytes(2)
_NO_ANNOTATIONS = struct.pack(">I", 0)
NO_OTHER_INPUTS = _EMPTY + _NO_ANNOTATIONS


def _annotations(annotations: Mapping[str, str]) -> bytes:
    if not annotations:
        return _NO_ANNOTATIONS
    parts = [struct.pack(">I", len(annotations))]
    for key, value in sorted(
        annotations.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")
    ):
        parts += (_text(key), _text(value))
    return b"".join(parts)


def _text(text: str) -> bytes:
    return _bytes(text.encode("utf-8", "surrogateescape"))


def _bytes(data: bytes) -> bytes:
    if len(data) > _MAX_PART_BYTES:
        raise ServiceAccountError(
            f"a part of a cache key is {len(data)} bytes long, expected at most {_MAX_PART_BYTES}",
            f"cryptobyte: pending child length {len(data)} exceeds 2-byte length prefix",
        )
    return len(data).to_bytes(2, "big") + data
