"""The Kubernetes versions whose rules lint knows, and what each of them supports."""

from __future__ import annotations

import re
from collections.abc import Mapping

from keyferry._core.values import Value
from keyferry.images.config.validate import GATE
from keyferry.images.node.settings import RECORDS_GATE

LATEST = "1.36"
_OLDEST = 26  # the first version with v1 of the config and of the protocol
_TOKENS, _DIRECTORY, _CACHE_TYPE, _GATE_ON = 33, 34, 34, 34
_NEWEST = 37  # its rules are those of LATEST, the version whose answers are recorded
# The kubelets that have fewer locks for pull records than they count, and the first that keeps records by default.
_FIRST_PANIC, _LAST_PANIC, _RECORDS_ON = 34, 36, 35
MAX_PARALLEL_PULLS = 31
_VERSION = re.compile(r"v?1\.([0-9]{1,3})(?:[.+-].*)?", re.ASCII)


class Features(Value):
    """The features of provider configs that one Kubernetes version supports."""

    version: str
    directory: bool
    token_attributes: bool
    cache_type: bool
    gate: bool


def rules_for(kubernetes: str, gates: Mapping[str, bool]) -> Features:
    """Return the features of a version, such as ``1.34`` or ``v1.34.2``, with *gates*.

    Raise ValueError if it is not one. A version that is newer than all known ones has the rules of the newest.
    """
    minor = _minor(kubernetes)
    return Features(
        version=f"1.{minor}",
        directory=minor >= _DIRECTORY,
        token_attributes=minor >= _TOKENS,
        cache_type=minor >= _CACHE_TYPE,
        gate=gates.get(GATE, minor >= _GATE_ON),
    )


def panics_beyond(kubernetes: str, gates: Mapping[str, bool]) -> bool:
    """Return whether a kubelet panics if ``maxParallelImagePulls`` is above MAX_PARALLEL_PULLS (kubernetes#138937)."""
    minor = _minor(kubernetes)
    return _FIRST_PANIC <= minor <= _LAST_PANIC and gates.get(RECORDS_GATE, minor >= _RECORDS_ON)


def is_unknown(kubernetes: str) -> bool:
    """Return whether a version is newer than all known ones, so that the rules of the newest are used for it."""
    return _minor(kubernetes) > _NEWEST


def _minor(kubernetes: str) -> int:
    match = _VERSION.fullmatch(kubernetes)
    if match is None:
        raise ValueError(f"{kubernetes!r} is not a Kubernetes version, expected for example {LATEST!r}")
    minor = int(match[1])
    if minor < _OLDEST:
        raise ValueError(
            f"Kubernetes {kubernetes} is not supported: the v1 provider config exists since 1.{_OLDEST}"
        )
    return minor
