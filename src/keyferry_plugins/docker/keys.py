"""The keys that docker configs keep logins under, and which of them cover an image, by the kubelet's rules."""

from keyferry.sdk.url import UrlSyntaxError, split_registry_key, split_registry_url
from keyferry.sdk.values import Value

__all__ = ["HostPath", "covers", "normalise", "parse_host_path"]

# What a host may have: letters, digits, a star for a glob, and a few more.
_HOST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=")
_ADDRESS = frozenset("0123456789abcdefABCDEF:")


class HostPath(Value):
    """A key or an image in the parts that are compared."""

    host: str
    port: str
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path}" if self.port else host + self.path


def normalise(key: str) -> HostPath | None:
    """The place a key of a docker config stands for, or None for one that the kubelet could not use either.

    The scheme is optional, user info, query and fragment vanish, and a path that begins with an API version
    loses it. Keys of a kind that no registry has are given up where the kubelet might still match them:
    escapes in a host, and IPv6 addresses without a port.
    """
    try:
        _, host, port, path = split_registry_key(key)
    except UrlSyntaxError:
        return None
    return HostPath(host, port, path) if _is_host(host) else None


def parse_host_path(text: str) -> HostPath | None:
    """The parts of a key without its scheme, or of an image's name; None if there is no host in it."""
    try:
        _, host, port, path = split_registry_url(text)
    except UrlSyntaxError:
        return None
    return HostPath(host, port, path) if _is_host(host) else None


def covers(key: HostPath, image: HostPath) -> bool:
    """Tell whether a login kept under *key* is for *image*: port, number of labels, path prefix, then each label."""
    wanted, found = key.host.split("."), image.host.split(".")
    if key.port != image.port or len(wanted) != len(found) or not image.path.startswith(key.path):
        return False
    return all(map(_matches, wanted, found))


def _is_host(host: str) -> bool:
    """Tell whether it is a name, or an address that had a port behind it and so has lost its brackets."""
    return bool(host) and (_HOST.issuperset(host) or (":" in host and _ADDRESS.issuperset(host)))


def _matches(glob: str, label: str) -> bool:
    """Tell whether a label fits a glob, in which a star stands for any run of characters."""
    first, *rest = glob.split("*")
    if not rest:
        return glob == label
    *middle, last = rest
    if not label.startswith(first) or not label.endswith(last) or len(label) < len(first) + len(last):
        return False
    # The leftmost place is the best for each piece: the next star takes up any slack.
    at, end = len(first), len(label) - len(last)
    for piece in middle:
        found = label.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
