"""Patterns of images that may be used without verification: a name, or ``host/path/*`` for all names below."""

from collections.abc import Iterable

from keyferry._core.values import Value
from keyferry.errors import ImageNameError, PolicyError
from keyferry.images.reference import trim

__all__ = ["Allowlist", "AllowlistPattern", "parse_pattern"]

# The characters that Go's strings.TrimSpace removes; Python's strip removes more.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


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
    return AllowlistPattern(text, is_wildcard)


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
