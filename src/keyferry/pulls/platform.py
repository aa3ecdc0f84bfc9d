"""Platforms of images: notation, the platform of this machine, and which platforms run on which."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from keyferry._core.values import Value
from keyferry.errors import EnvironmentProblem

__all__ = ["Platform", "parse_platform", "preferences", "this_machine"]

_ARCHITECTURES = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "i386": "386",
    "i486": "386",
    "i586": "386",
    "i686": "386",
    "aarch64": "arm64",
    "armhf": "arm",
    "armel": "arm",
}
_ARM_VARIANTS = ("v8", "v7", "v6", "v5")
_AMD64_VARIANTS = ("v4", "v3", "v2", "v1")
_MOST_PARTS = 3
_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


class Platform(Value):
    """An operating system, a processor architecture and, for some architectures, a variant."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


def parse_platform(text: str) -> Platform:
    """Parse ``os/architecture[/variant]``; raise EnvironmentProblem for any other text."""
    parts = text.lower().split("/")
    if not 1 < len(parts) <= _MOST_PARTS or not all(part and _CHARACTERS.issuperset(part) for part in parts):
        raise EnvironmentProblem(
            f"platform {text!r}: expected os/architecture or os/architecture/variant, such as 'linux/arm64'"
        )
    return normalise(Platform(**dict(zip(("os", "architecture", "variant"), parts, strict=False))))


def this_machine() -> Platform:
    """Return the platform that this process runs on."""
    machine = os.uname().machine.lower()
    if machine.startswith("armv"):
        return normalise(Platform(os="linux", architecture="arm", variant=machine[3:5]))
    return normalise(Platform(os=os.uname().sysname.lower(), architecture=machine))


def normalise(platform: Platform) -> Platform:
    """Return *platform* in its canonical spelling: ``x86_64`` becomes ``amd64``, default variants are left out."""
    architecture = _ARCHITECTURES.get(platform.architecture, platform.architecture)
    variant = platform.variant
    if architecture == "arm":
        variant = {"armel": "v6"}.get(platform.architecture, variant or "v7")
        variant = variant if variant.startswith("v") else f"v{variant}"
    if (architecture, variant) in (("arm64", "v8"), ("arm64", "8"), ("amd64", "v1")):
        variant = ""
    return Platform(os=platform.os, architecture=architecture, variant=variant)


def preferences(platform: Platform) -> Iterator[Platform]:
    """Yield the platforms whose images run on *platform*, best first: itself, then its predecessors."""
    wanted = normalise(platform)
    yield wanted
    yield from (
        Platform(os=wanted.os, architecture=wanted.architecture, variant=variant)
        for variant in _older(wanted)
    )
    if wanted.architecture == "arm64":
        yield from (Platform(os=wanted.os, architecture="arm", variant=variant) for variant in _ARM_VARIANTS)


def _older(platform: Platform) -> Iterable[str]:
    known = {"arm": _ARM_VARIANTS, "amd64": (*_AMD64_VARIANTS[:-1], "")}.get(platform.architecture, ())
    if platform.variant in known:
        return known[known.index(platform.variant) + 1 :]
    return ("",) if platform.variant else ()
