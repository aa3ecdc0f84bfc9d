"""The four verification policies, which determine when a pod's access to an image on the node is verified.

One of them has an allowlist: a pattern is a name, or ``host/path/*`` for all names below.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from keyferry._core.values import Value
from keyferry.errors import ImageNameError, PolicyError
from keyferry.images.reference import trim

NEVER = "NeverVerify"
PRELOADED = "NeverVerifyPreloadedImages"
ALLOWLISTED = "NeverVerifyAllowlistedImages"
ALWAYS = "AlwaysVerify"
POLICIES = (NEVER, PRELOADED, ALLOWLISTED, ALWAYS)
DEFAULT = PRELOADED
# The characters that Go's strings.TrimSpace removes; Python's strip removes more.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


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


class AllowlistPattern(Value):
    """One pattern: *text* is the whole name, or for a wildcard the prefix up to and including its last slash."""

    text: str
    is_wildcard: bool = False

    def __str__(self) -> str:
        return f"{self.text}*" if self.is_wildcard else self.text


def parse_pattern(pattern: str) -> AllowlistPattern:
    """Parse one pattern as the kubelet does; raise PolicyError if it is invalid."""
    if pattern != pattern.strip(_SPACES):
        raise _refusal(pattern, "it has white space around it", "leading/trailing spaces are not allowed: ")
    is_wildcard = pattern.endswith("/*")
    text = pattern.removesuffix("*") if is_wildcard else pattern
    if not text:
        raise _refusal(pattern, "it is empty", "the supplied pattern is too short: ")
    if "*" in text:
        why = "a '*' is allowed only as the last path segment, as in 'registry.example/team/*'"
        raise _refusal(
            pattern, why, "not a valid wildcard pattern, only patterns ending with '/*' are allowed: "
        )
    if not is_wildcard:
        _check_name(pattern)
    elif text == "/":
        kubernetes_text = "at least registry hostname is required"
        raise PolicyError(f"allowlist pattern {pattern!r}: expected a registry before '/*'", kubernetes_text)
    return AllowlistPattern(text=text, is_wildcard=is_wildcard)


def _check_name(pattern: str) -> None:
    try:
        name = trim(pattern)
    except ImageNameError as error:
        text = f"failed to parse as an image name: {error.kubernetes_text}"
        raise PolicyError(f"allowlist pattern {error.message}", text) from None
    if name != pattern:
        why = f"a tag or digest is not allowed; write {name!r}"
        raise _refusal(pattern, why, "neither tag nor digest is accepted in an image reference: ")


def _refusal(pattern: str, why: str, kubernetes_text: str) -> PolicyError:
    return PolicyError(f"allowlist pattern {pattern!r}: {why}", kubernetes_text + pattern)


class Allowlist:
    """A set of patterns; the time of a search does not depend on their number."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(parse_pattern(pattern) for pattern in patterns)
        self._names = {each.text: each for each in self.patterns if not each.is_wildcard}
        self._prefixes = {each.text: each for each in self.patterns if each.is_wildcard}

    def find(self, image: str) -> AllowlistPattern | None:
        """Return the pattern that covers *image*, or None; names are compared as text, without tag and digest."""
        try:
            name = trim(image)
        except ImageNameError:
            name = image
        found = self._names.get(name)
        end = name.find("/")
        while found is None and end >= 0:
            found = self._prefixes.get(name[: end + 1])
            end = name.find("/", end + 1)
        return found


class VerificationPolicy:
    """A policy by its name: which pods may use an image without showing a credential for it.

    The names are NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages and AlwaysVerify; *allowlist*
    has the patterns of the third. Raise PolicyError for another name or a wrong pattern.
    """

    def __init__(self, name: str = DEFAULT, allowlist: Iterable[str] = ()) -> None:
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


def make_policy(name: str = DEFAULT, allowlist: Iterable[str] = ()) -> VerificationPolicy:
    """Make a policy from the fields of the kubelet's configuration.

    Raise PolicyError if they are invalid, or, as the kubelet does, if the policy does not use an allowlist.
    """
    patterns = tuple(allowlist)
    policy = VerificationPolicy(name, patterns)
    if patterns and name != ALLOWLISTED:
        raise PolicyError(f"policy {name!r} takes no allowlist; only {ALLOWLISTED!r} does")
    return policy
