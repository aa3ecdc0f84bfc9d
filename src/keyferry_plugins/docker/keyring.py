"""Choose the logins of docker configs for a response, by their keys and the kubelet's rules, and its lifetime."""

from __future__ import annotations

from collections.abc import Iterable

from keyferry._core.docker_hub import HUB, LOGIN_HOST, is_default_registry
from keyferry._core.values import Value
from keyferry._net.url import UrlSyntaxError, split_registry_key, split_registry_url
from keyferry.sdk import GLOBAL, IMAGE, AuthConfig
from keyferry.sdk.flags import read_seconds
from keyferry_plugins.docker.config import Login

# The characters of a host: letters, digits, a star for a glob, and a few more.
_HOST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=")
_ADDRESS = frozenset("0123456789abcdefABCDEF:")
# The kubelet treats these spellings as one key, and a response can contain each spelling once.
_SPELLINGS = ("{}", "https://{}", "http://{}")


class HostPath(Value):
    """A key or an image, split into the parts that are compared."""

    host: str
    port: str
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path}" if self.port else host + self.path


Kept = list[tuple[HostPath, Login]]


def choose_logins(entries: Iterable[tuple[str, Login]], image: str, cache_key_type: str) -> Kept:
    """Return the logins that a response of *cache_key_type* for *image* must contain, in the order given.

    A response for the image contains the logins that cover the image; one for the registry contains those of
    its host with any path; a global one contains all.
    """
    places = [(place, login) for key, login in entries if (place := normalise(key)) is not None]
    if cache_key_type == GLOBAL:
        return places
    asked = parse_host_path(image)
    if asked is None:
        return []
    if cache_key_type == IMAGE:
        return [kept for kept in places if matches(kept[0], asked)] or _hub_logins(places, image)
    same_host = [
        (place, login)
        for place, login in places
        if matches(HostPath(host=place.host, port=place.port, path=""), asked)
    ]
    return same_host or _hub_logins(places, image)


def _hub_logins(places: Kept, image: str) -> Kept:
    """Return the logins under Docker Hub's own key, which apply only if no other login does."""
    if not is_default_registry(image):
        return []
    host = image.partition("/")[0] if "/" in image else HUB
    hub = parse_host_path(host) or HostPath(host=HUB, port="", path="")
    return [(hub, login) for place, login in places if str(place) == LOGIN_HOST]


def write_auth(kept: Kept, notes: list[str]) -> dict[str, AuthConfig]:
    """Return the logins as the ``auth`` of a response; several logins under one key use several spellings of it."""
    logins: dict[str, list[AuthConfig]] = {}
    for place, login in kept:
        entry = AuthConfig(username=login.username, password=login.password)
        under = logins.setdefault(str(place), [])
        if entry not in under:
            under.append(entry)
    auth: dict[str, AuthConfig] = {}
    for key, entries in logins.items():
        auth.update(zip((spelling.format(key) for spelling in _SPELLINGS), entries, strict=False))
        if len(entries) > len(_SPELLINGS):
            notes.append(
                f"{key!r} has {len(entries)} logins; only the first {len(_SPELLINGS)} fit in a response"
            )
    return auth


def read_cache_duration(text: str) -> float | None:
    """Return the seconds of ``--cache-duration``, such as ``10m``; None if empty, as the config decides then."""
    if not text:
        return None
    return read_seconds("--cache-duration", text, expected="such as 10m, 1h or 0s", is_zero_allowed=True)


def normalise(key: str) -> HostPath | None:
    """Return the host and path of a docker config's key, or None if the kubelet could not use it either.

    The scheme is optional; user info, query and fragment are dropped, and so is a path's leading API version.
    Two kinds of keys that the kubelet might match, but no registry has, are also None: escapes in a host, and
    IPv6 addresses without a port.
    """
    try:
        _, host, port, path = split_registry_key(key)
    except UrlSyntaxError:
        return None
    return HostPath(host=host, port=port, path=path) if _is_host(host) else None


def parse_host_path(text: str) -> HostPath | None:
    """Return the parts of a key without its scheme, or of an image's name; None if it has no host."""
    try:
        _, host, port, path = split_registry_url(text)
    except UrlSyntaxError:
        return None
    return HostPath(host=host, port=port, path=path) if _is_host(host) else None


def matches(key: HostPath, image: HostPath) -> bool:
    """Return whether a login under *key* is for *image*, by port, number of labels, path prefix and each label."""
    wanted, found = key.host.split("."), image.host.split(".")
    if key.port != image.port or len(wanted) != len(found) or not image.path.startswith(key.path):
        return False
    return all(map(_matches, wanted, found))


def _is_host(host: str) -> bool:
    """Return whether *host* is a name, or an address whose brackets were removed along with its port."""
    return bool(host) and (_HOST.issuperset(host) or (":" in host and _ADDRESS.issuperset(host)))


def _matches(glob: str, label: str) -> bool:
    """Return whether a label matches a glob, in which a star matches any run of characters."""
    first, *rest = glob.split("*")
    if not rest:
        return glob == label
    *middle, last = rest
    if not label.startswith(first) or not label.endswith(last) or len(label) < len(first) + len(last):
        return False
    # The leftmost match of each piece suffices: the next star matches the characters in between.
    at, end = len(first), len(label) - len(last)
    for piece in middle:
        found = label.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
