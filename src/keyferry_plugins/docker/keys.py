"""The keys that docker configs keep logins under, and which of them cover an image, by the kubelet's rules."""

from keyferry.sdk.forms import decode_percent
from keyferry.sdk.values import Value

__all__ = ["Place", "covers", "normalise", "read_place"]

_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
# What a host may have: letters, digits, a star for a glob, and these.
_HOST_MARKS = frozenset("-._~!$&'()*+,;=")


class Place(Value):
    """A key or an image in the parts that are compared."""

    host: str
    port: str
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}{self.path}" if self.port else host + self.path


def normalise(key: str) -> Place | None:
    """The place a key of a docker config stands for, or None for one that the kubelet could not use either.

    The scheme is optional, user info, query and fragment vanish, and a path that begins with an API version
    loses it. Keys of a kind that no registry has are given up where the kubelet might still match them:
    escapes in a host, and IPv6 addresses without a port.
    """
    prefix = "http://" if key.startswith("http://") else "https://"
    place = read_place(key.removeprefix(prefix))
    if place is None:
        return None
    path = place.path[3:] if place.path.startswith(("/v1/", "/v2/")) else place.path
    return Place(place.host, place.port, "" if path == "/" else path)


def read_place(text: str) -> Place | None:
    """The parts of a key without its scheme, or of an image's name; None if there is no host in it."""
    if any(char < " " or char == "\x7f" for char in text):
        return None
    url, _, fragment = text.partition("#")
    authority, slash, path = url.partition("?")[0].partition("/")
    user_info, _, place = authority.rpartition("@")
    split = _split_authority(place)
    if split is None or not all(map(_has_good_escapes, (user_info, path, fragment))):
        return None
    if not all(_fits_host(char) or char in ":%@" for char in user_info):
        return None
    return Place(*split, decode_percent(slash + path))


def covers(key: Place, image: Place) -> bool:
    """Tell whether a login kept under *key* is for *image*: port, number of labels, path prefix, then each label."""
    wanted, found = key.host.split("."), image.host.split(".")
    if key.port != image.port or len(wanted) != len(found) or not image.path.startswith(key.path):
        return False
    return all(map(_matches, wanted, found))


def _split_authority(authority: str) -> tuple[str, str] | None:
    if authority.startswith("["):
        host, bracket, port = authority[1:].partition("]")
        is_address = ":" in host and all(char in _HEX_DIGITS or char == ":" for char in host)
        return (host, port[1:]) if bracket and is_address and _is_port(port[1:]) and port[1:] else None
    host, _, port = authority.partition(":")
    if not host or not all(map(_fits_host, host)) or not _is_port(port):
        return None
    return host, port


def _is_port(text: str) -> bool:
    return text.isascii() and (not text or text.isdigit())


def _fits_host(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in _HOST_MARKS)


def _has_good_escapes(text: str) -> bool:
    pieces = text.split("%")[1:]
    return all(len(piece) > 1 and _HEX_DIGITS.issuperset(piece[:2]) for piece in pieces)


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
