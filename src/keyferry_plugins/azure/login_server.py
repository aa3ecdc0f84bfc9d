"""Find the Azure registry that an image is pulled from, after the registry mirrors."""

from __future__ import annotations

from keyferry._core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Mirrored",
    "apply_mirror",
    "find_login_server",
    "find_login_server_compat",
    "host_of",
    "parse_mirrors",
]

_ZONES = ("azurecr.io", "azurecr.cn", "azurecr.de", "azurecr.us")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_LONGEST_LABEL = 63
_MOST_PORT = 65535


class Mirrored(Value):
    """An image's name after mirroring, and the mirror's source if one applied."""

    image: str
    source: str = ""


def parse_mirrors(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the targets by source of ``source:target,source:target``, and the malformed entries."""
    mirrors: dict[str, str] = {}
    refused = []
    for entry in filter(None, text.replace(" ", "").split(",")):
        source, mark, target = entry.partition(":")
        if not mark or ":" in target or not source or not target:
            refused.append(entry)
        else:
            mirrors[source] = target
    return mirrors, tuple(refused)


def apply_mirror(mirrors: Mapping[str, str], image: str, *, compat: bool = False) -> Mirrored:
    """Return the image after mirroring.

    The longest source that equals the image, or is followed by a slash in it, applies. With *compat* a source
    is any prefix of the image, and the first one applies: upstream tries them in random order.
    """
    if compat:
        fitting = [source for source in mirrors if image.startswith(source)][:1]
    else:
        fitting = [source for source in mirrors if f"{image}/".startswith(f"{source.rstrip('/')}/")]
    if not fitting:
        return Mirrored(image)
    source = max(fitting, key=len)
    return Mirrored(mirrors[source] + image[len(source) :], source)


def host_of(server: str) -> str:
    """Return the host of a login server, without its port."""
    return server.partition(":")[0]


def find_login_server(image: str, suffix: str) -> str:
    """Return the image's registry with its port, if any, or an empty string if it is not a registry of Azure.

    The whole text before the first slash must match: one label and one of the four zones, or any labels and
    the cloud's own *suffix*.
    """
    registry = image.partition("/")[0]
    host, mark, port = registry.partition(":")
    if mark and not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= _MOST_PORT):
        return ""
    labels = host.split(".")
    if not all(map(_is_label, labels)):
        return ""
    zone = ".".join(labels[1:]).lower()
    if zone in _ZONES and _LETTERS.issuperset(labels[0]):
        return registry
    own = suffix.strip(".").lower()
    return registry if own and host.lower().endswith(f".{own}") else ""


def find_login_server_compat(image: str, suffix: str) -> str:
    """Return the image's registry as upstream finds it: *suffix* may occur anywhere in the image.

    Upstream also accepts ``evil.example/x.azurecr.io``, and so sends its token to a host outside Azure.
    """
    registry = image.partition("/")[0]
    name, _, zone = registry.partition(".")
    if zone in _ZONES and name and _LETTERS.issuperset(name):
        return registry
    at = image.find(suffix) if suffix else -1
    found = image[: at + len(suffix)] if at >= 0 else ""
    return found if found == find_login_server(found, suffix) else ""


def _is_label(label: str) -> bool:
    return (
        0 < len(label) <= _LONGEST_LABEL
        and _LETTERS.issuperset(label.replace("-", ""))
        and label[0] != "-"
        and label[-1] != "-"
    )
