"""The four policies: when a pod must show that it may pull an image that is on the node already."""

from enum import StrEnum

from keyferry._core.values import Value
from keyferry.errors import PolicyError
from keyferry.pulls.records.allowlist import Allowlist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ALLOWLISTED",
    "ALWAYS",
    "DEFAULT",
    "NEVER",
    "POLICIES",
    "PRELOADED",
    "PolicyRule",
    "VerificationPolicy",
    "make_policy",
]

NEVER = "NeverVerify"
PRELOADED = "NeverVerifyPreloadedImages"
ALLOWLISTED = "NeverVerifyAllowlistedImages"
ALWAYS = "AlwaysVerify"
POLICIES = (NEVER, PRELOADED, ALLOWLISTED, ALWAYS)
DEFAULT = PRELOADED


class PolicyRule(StrEnum):
    """By which of its rules a policy judges an image."""

    NEVER = "never"
    ALWAYS = "always"
    PULLED_BY_KUBELET = "pulled-by-kubelet"
    PRELOADED = "preloaded"
    ALLOWLISTED = "allowlisted"
    NOT_ALLOWLISTED = "not-allowlisted"


class PolicyVerdict(Value):
    """What a policy says of one image, and by which of its rules."""

    must_verify: bool
    rule: PolicyRule
    pattern: str = ""


_NEVER = PolicyVerdict(must_verify=False, rule=PolicyRule.NEVER)
_ALWAYS = PolicyVerdict(must_verify=True, rule=PolicyRule.ALWAYS)
_PULLED = PolicyVerdict(must_verify=True, rule=PolicyRule.PULLED_BY_KUBELET)
_THERE = PolicyVerdict(must_verify=False, rule=PolicyRule.PRELOADED)
_UNLISTED = PolicyVerdict(must_verify=True, rule=PolicyRule.NOT_ALLOWLISTED)


class VerificationPolicy:
    """One of the four, with its allowlist; see :func:`make_policy`."""

    def __init__(self, name: str = DEFAULT, allowlist: "Iterable[str]" = ()) -> None:
        """As the kubelet makes one: a list is read only by the policy that has one. Raises PolicyError."""
        if name not in POLICIES:
            message = f"unknown policy {name!r}, expected one of {', '.join(POLICIES)}"
            raise PolicyError(message, f"unknown image pull credential verification policy: {name}")
        self.name = name
        self.allowlist = Allowlist(allowlist if name == ALLOWLISTED else ())

    def __repr__(self) -> str:
        patterns = ", ".join(map(str, self.allowlist.patterns))
        return f"VerificationPolicy({self.name!r}{', ' if patterns else ''}{patterns})"

    def judge(self, image: str, *, pulled_by_kubelet: bool) -> PolicyVerdict:
        """Tell whether a pod's credentials count before it may use *image*, and why."""
        if self.name == NEVER:
            return _NEVER
        if self.name == ALWAYS:
            return _ALWAYS
        if self.name == PRELOADED:
            return _PULLED if pulled_by_kubelet else _THERE
        pattern = self.allowlist.find(image)
        if pattern is None:
            return _UNLISTED
        return PolicyVerdict(must_verify=False, rule=PolicyRule.ALLOWLISTED, pattern=str(pattern))


def make_policy(name: str = DEFAULT, allowlist: "Iterable[str]" = ()) -> VerificationPolicy:
    """A policy as the kubelet's configuration has it; a list for a policy without one is refused there too."""
    patterns = tuple(allowlist)
    policy = VerificationPolicy(name, patterns)
    if patterns and name != ALLOWLISTED:
        raise PolicyError(f"policy {name!r} takes no allowlist; only {ALLOWLISTED!r} does")
    return policy
