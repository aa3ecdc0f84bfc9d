"""Policies and their allowlists."""

from __future__ import annotations

import pytest

from keyferry.errors import PolicyError
from keyferry.pulls.records.policy import ALLOWLISTED, Allowlist, VerificationPolicy, make_policy


def test_a_verdict_names_its_rule() -> None:
    """What a policy says comes with why."""
    policy = VerificationPolicy(ALLOWLISTED, ["reg.io/*"])
    verdict = policy.judge("reg.io/x", pulled_by_kubelet=True)
    assert (verdict.must_verify, verdict.rule, verdict.pattern) == (False, "allowlisted", "reg.io/*")


def test_a_list_for_another_policy_is_refused() -> None:
    """The kubelet's configuration does not let it pass either."""
    with pytest.raises(PolicyError, match="takes no allowlist"):
        make_policy("AlwaysVerify", ["reg.io/*"])


def test_a_wildcard_stops_at_segments() -> None:
    """``reg.io/a/*`` covers what is below, and neither the folder itself nor its neighbours."""
    allowed = Allowlist(["reg.io/a/*", "busybox"])
    assert str(allowed.find("reg.io/a/b:v1")) == "reg.io/a/*"
    assert str(allowed.find("reg.io/a/b/c@sha256:" + "0" * 64)) == "reg.io/a/*"
    assert allowed.find("reg.io/a") is None
    assert allowed.find("reg.io/ab/c") is None
    assert str(allowed.find("busybox:1")) == "busybox"
    assert allowed.find("docker.io/library/busybox") is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "it is empty"),
        ("/*", "expected a registry before"),
        ("*", "allowed only as the last path segment"),
        ("reg.io/*/a", "allowed only as the last path segment"),
        ("reg.io/a*", "allowed only as the last path segment"),
        ("reg.io/*/*", "allowed only as the last path segment"),
        (" a", "it has white space around it"),
        ("a:1", "a tag or digest is not allowed; write 'a'"),
        ("reg.io/A b", "allowlist pattern 'reg.io/A b'"),
    ],
)
def test_a_bad_pattern_is_refused(pattern: str, why: str) -> None:
    """One bad pattern refuses the whole list."""
    with pytest.raises(PolicyError, match=why):
        Allowlist(["reg.io/*", pattern])


def test_an_empty_pattern_is_refused_in_the_words_of_the_kubelet() -> None:
    with pytest.raises(PolicyError) as caught:
        Allowlist([""])
    assert caught.value.kubernetes_text == "the supplied pattern is too short: "
