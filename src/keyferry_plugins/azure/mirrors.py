"""Registry mirrors: find the registry that an image is actually pulled from."""

from keyferry.sdk.values import Value

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Mirrored", "apply_mirror", "parse_mirrors"]


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


def apply_mirror(mirrors: "Mapping[str, str]", image: str, *, compat: bool = False) -> Mirrored:
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
