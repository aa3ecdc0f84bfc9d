"""The four verification policies, which determine when a pod's access to an image on the node is verified."""

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
    """The rule of a policy that applies to an image."""

    NEVER = "never"
    ALWAYS = "always"
    PULLED_BY_KUBELET = "pulled-by-kubelet"
    PRELOADED = "preloaded"
    ALLOWLISTED = "allowlisted"
    NOT_ALLOWLISTED = "not-allowlisted"


class PolicyVerdict(Value):
    """The result of a policy for one image, and the rule that applied."""

    must_verify: bool
    rule: PolicyRule
    pattern: str = ""


_NEVER = PolicyVerdict(must_verify=False, rule=PolicyRule.NEVER)
_ALWAYS = PolicyVerdict(must_verify=True, rule=PolicyRule.ALWAYS)
_PULLED = PolicyVerdict(must_verify=True, rule=PolicyRule.PULLED_BY_KUBELET)
_THERE = PolicyVerdict(must_verify=False, rule=PolicyRule.PRELOADED)
_UNLISTED = PolicyVerdict(must_verify=True, rule=PolicyRule.NOT_ALLOWLISTED)


class VerificationPolicy:
    """One of the four policies, with its allowlist; see :func:`make_policy`."""

    def __init__(self, name: str = DEFAULT, allowlist: "Iterable[str]" = ()) -> None:
        """Make a policy as the kubelet does: only the allowlist policy reads *allowlist*; raise PolicyError."""
        if name not in POLICIES:
            message = f"unknown policy {name!r}, expected one of {', '.join(POLICIES)}"
            raise PolicyError(message, f"unknown image pull credential verification policy: {name}")
        self.name = name
        self.allowlist = Allowlist(allowlist if name == ALLOWLISTED else ())

    def __repr__(self) -> str:
        patterns = ", ".join(map(str, self.allowlist.patterns))
        return f"VerificationPolicy({self.name!r}{', ' if patterns else ''}{patterns})"

    def judge(self, image: str, *, pulled_by_kubelet: bool) -> PolicyVerdict:
        """Return whether the use of *image* must be verified, and the rule that applied."""
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
    """Make a policy from the fields of the kubelet's configuration.

    Raise PolicyError if they are invalid, or, as the kubelet does, if the policy does not use an allowlist.
    """
    patterns = tuple(allowlist)
    policy = VerificationPolicy(name, patterns)
    if patterns and name != ALLOWLISTED:
        raise PolicyError(f"policy {name!r} takes no allowlist; only {ALLOWLISTED!r} does")
    return policy
