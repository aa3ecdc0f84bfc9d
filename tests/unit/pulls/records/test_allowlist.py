"""Patterns of images that are never verified."""

import pytest

from keyferry.errors import PolicyError
from keyferry.pulls.records.allowlist import Allowlist


def test_a_wildcard_stops_at_segments() -> None:
    """``reg.io/a/*`` covers what is below, and neither the folder itself nor its neighbours."""
    allowed = Allowlist(["reg.io/a/*", "busybox"])
    assert str(allowed.find("reg.io/a/b:v1")) == "reg.io/a/*"
    assert str(allowed.find("reg.io/a/b/c@sha256:" + "0" * 64)) == "reg.io/a/*"
    assert allowed.find("reg.io/a") is None
    assert allowed.find("reg.io/ab/c") is None
    assert str(allowed.find("busybox:1")) == "busybox"
    assert allowed.find("docker.io/library/busybox") is None


@pytest.mark.parametrize("pattern", ["", "/*", "*", " a", "a:1"])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    """One bad pattern refuses the whole list."""
    with pytest.raises(PolicyError):
        Allowlist(["reg.io/*", pattern])
