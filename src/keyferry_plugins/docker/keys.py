"""The keys of logins in docker configs, and which of them cover an image, by the kubelet's rules."""

from keyferry.sdk.url import UrlSyntaxError, split_registry_key, split_registry_url
from keyferry.sdk.values import Value

__all__ = ["HostPath", "covers", "normalise", "parse_host_path"]

# The characters of a host: letters, digits, a star for a glob, and a few more.
_HOST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=")
_ADDRESS = frozenset("0123456789abcdefABCDEF:")


class HostPath(Value):
    """A key or an image, split into the parts that are compared."""

    host: str
    port: str
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path}" if self.port else host + self.path


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
    return HostPath(host, port, path) if _is_host(host) else None


def parse_host_path(text: str) -> HostPath | None:
    """Return the parts of a key without its scheme, or of an image's name; None if it has no host."""
    try:
        _, host, port, path = split_registry_url(text)
    except UrlSyntaxError:
        return None
    return HostPath(host, port, path) if _is_host(host) else None


def covers(key: HostPath, image: HostPath) -> bool:
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
