"""Patterns that no image can match, and their corrections.

The matching rules are not repeated here: a pattern is tried on image names that are made to match it. If the
kubelet would match none of them, the most helpful reason is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from keyferry._core.docker_hub import ALIASES, HUB, LOGIN_HOST
from keyferry.errors import ImageNameError
from keyferry.images.match import Pattern, matches, parse_registry_url
from keyferry.images.reference import normalise

CodedMessage = tuple[str, str]  # code and message

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?=[^/])")
_USER_INFO = re.compile(r"\A[^/?#]*@")
# A first part without a dot is a registry if it has an upper-case letter or is localhost.
_FILLERS = ("a", "A", "localhost", "")
_STRANGE = re.compile(r"[^A-Za-z0-9.*-]")


def why_misread(pattern: Pattern) -> CodedMessage | None:
    """Return why parts of a pattern are ignored or read as something else; None if none are."""
    text = pattern.text
    rest = without_scheme(pattern)
    if rest:
        return "KF150", f"it never matches: with the scheme its host is {pattern.host!r}; use {rest!r}"
    host = without_user_info(pattern)
    if host:
        return "KF156", f"the part before the '@' is ignored, and must not contain a password; use {host!r}"
    ignored = re.search(r"[?#]", text)
    if ignored:
        return "KF155", (
            f"{ignored[0]!r} is not a wildcard: everything from there on is ignored, and the pattern means "
            f"{text[: ignored.start()]!r}; use * for part of a host label"
        )
    return None


# What a pattern was meant to be, for the problems that have one right answer; empty if it is not known.


def without_scheme(pattern: Pattern) -> str:
    """Return a pattern without its scheme and what else is ignored."""
    scheme = _SCHEME.match(pattern.text)
    return _USER_INFO.sub("", pattern.text[scheme.end() :]).rstrip("/") if scheme else ""


def without_user_info(pattern: Pattern) -> str:
    """Return a pattern without the part before its '@'."""
    host = _USER_INFO.sub("", pattern.text)
    return "" if host == pattern.text else host


def without_final_wildcard(pattern: Pattern) -> str:
    """Return a pattern without the wildcard at the end of its path; one in the middle has no right answer."""
    _, star, rest = pattern.text.partition("/")[2].partition("*")
    return "" if not star or rest.strip("*/") else _before_wildcard(pattern)


def in_lower_case(pattern: Pattern) -> str:
    """Return a pattern with its path in lower case."""
    host, slash, path = pattern.text.partition("/")
    return host + slash + path.lower() if path != path.lower() else ""


def without_tag(pattern: Pattern) -> str:
    """Return a pattern without its tag or digest."""
    host, slash, path = pattern.text.partition("/")
    cut = re.search(r"[:@]", path)
    return host + slash + path[: cut.start()] if cut else ""


def with_hub_name(pattern: Pattern) -> str:
    """Return a pattern for Docker Hub with the name that images have."""
    return HUB + pattern.path if pattern.host in ALIASES else ""


def without_final_dot(pattern: Pattern) -> str:
    """Return a pattern without the dot at the end of its host."""
    host = pattern.host
    return host.rstrip(".") + pattern.path if host.endswith(".") else ""


def _before_wildcard(pattern: Pattern) -> str:
    host, slash, path = pattern.text.partition("/")
    prefix = path.partition("*")[0]
    return host + slash + prefix if prefix else host


def why_unmatchable(pattern: Pattern) -> CodedMessage | None:
    """Return why no image can match a pattern; None if one can."""
    if any(_is_covered(pattern, image) for image in _candidates(pattern)):
        return None
    reasons = (reason for check in _CHECKS if (reason := check(pattern)))
    return next(reasons, ("KF168", f"it never matches: no repository begins with {pattern.path[1:]!r}"))


def _candidates(pattern: Pattern) -> Iterator[str]:
    for suffix in ("", "/a", "a"):
        yield from _with_hosts(pattern, pattern.path + suffix)


def _with_hosts(pattern: Pattern, path: str) -> Iterator[str]:
    for filler in _FILLERS:
        yield pattern.authority.rstrip(":").replace("*", filler) + path


def _is_covered(pattern: Pattern, image: str) -> bool:
    name = _normalised(image)
    return bool(name) and matches(pattern, parse_registry_url(name))


def _normalised(image: str) -> str:
    try:
        return normalise(image)
    except ImageNameError:
        return ""


def _empty(pattern: Pattern) -> CodedMessage | None:
    if pattern.host:
        return None
    what = "the pattern is empty" if not pattern.text else "the pattern has no host"
    return "KF154", f"it never matches: {what}; use a registry such as 'registry.example'"


def _address(pattern: Pattern) -> CodedMessage | None:
    host = pattern.host
    if not host.startswith("["):
        return None
    return "KF157", (
        f"it never matches: without a port, {host!r} is read as a character class; use for "
        f"example {host + ':5000'!r}"
    )


def _hub_alias(pattern: Pattern) -> CodedMessage | None:
    return hub_alias(pattern) if pattern.host == LOGIN_HOST else None


def hub_alias(pattern: Pattern) -> CodedMessage | None:
    """Return the problem of a pattern with another name of Docker Hub; None for other patterns."""
    host = pattern.host
    wanted = with_hub_name(pattern)
    if not wanted:
        return None
    return "KF160", (
        "it does not match Docker Hub: its images are looked up as 'docker.io/...', never as "
        f"{host!r}; use {wanted!r}"
    )


def _host(pattern: Pattern) -> CodedMessage | None:
    if any(_normalised(image) for image in _with_hosts(pattern, "/a")):
        return None
    host = pattern.host
    strange = _STRANGE.search(host)
    if host.endswith("."):
        why = f"its host ends with a dot; use {without_final_dot(pattern)!r}"
    elif "" in host.split("."):
        why = f"its host {host!r} has an empty label"
    elif strange:
        why = f"no image name can have {strange[0]!r} in its host"
    else:
        why = f"no image name can have the host {host!r}"
    return "KF158", f"it never matches: {why}"


def _short_host(pattern: Pattern) -> CodedMessage | None:
    name = _normalised(f"{pattern.authority.rstrip(':')}/a")
    if not name.startswith(f"{HUB}/") or pattern.host == HUB:
        return None
    host = pattern.host
    return "KF159", (
        f"it never matches: {host + '/app'!r} means 'docker.io/{host}/app'; use the full host name, "
        f"{host + '.example'!r}, or add the port, {host + ':5000'!r}"
    )


def _path_wildcard(pattern: Pattern) -> CodedMessage | None:
    prefix, star, _ = pattern.text.partition("/")[2].partition("*")
    if not star:
        return None
    wanted = _before_wildcard(pattern)
    return "KF151", (
        "there are no wildcards in paths: this matches only paths that begin with the characters "
        f"{'/' + prefix + '*'!r}, which no image has; a path is a prefix, so use {wanted!r}"
    )


def _tag(pattern: Pattern) -> CodedMessage | None:
    wanted = without_tag(pattern)
    if not wanted:
        return None
    what = "digest" if pattern.text[len(wanted)] == "@" else "tag"
    return "KF153", (f"it never matches: images are matched without their {what}; use {wanted!r}")


def _upper_case(pattern: Pattern) -> CodedMessage | None:
    wanted = in_lower_case(pattern)
    return ("KF152", f"it never matches: repositories are lower case; use {wanted!r}") if wanted else None


_CHECKS: tuple[Callable[[Pattern], CodedMessage | None], ...] = (
    _empty,
    _address,
    _hub_alias,
    _host,
    _short_host,
    _path_wildcard,
    _tag,
    _upper_case,
)
