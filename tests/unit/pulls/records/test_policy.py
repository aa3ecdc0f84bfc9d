"""Policies and their allowlists."""

import pytest

from keyferry.errors import PolicyError
from keyferry.pulls.records.policy import ALLOWLISTED, VerificationPolicy, make_policy


def test_a_verdict_names_its_rule() -> None:
    """What a policy says comes with why."""
    policy = VerificationPolicy(ALLOWLISTED, ["reg.io/*"])
    verdict = policy.judge("reg.io/x", pulled_by_kubelet=True)
    assert (verdict.must_verify, verdict.rule, verdict.pattern) == (False, "allowlisted", "reg.io/*")


def test_a_list_for_another_policy_is_refused() -> None:
    """The kubelet's configuration does not let it pass either."""
    with pytest.raises(PolicyError, match="takes no allowlist"):
        make_policy("AlwaysVerify", ["reg.io/*"])
