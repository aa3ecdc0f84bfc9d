"""Patterns that no image can match, and what to write instead.

Nothing here repeats the rules of matching: a pattern is tried on image names made to fit it, and if the
kubelet would use none of them, the most telling reason is looked for.
"""

import re
from collections.abc import Callable, Iterator

from keyferry._core.docker_hub import ALIASES, HUB, LOGIN_HOST
from keyferry.errors import ImageNameError
from keyferry.images.match.rules import Pattern, fits
from keyferry.images.match.url import parse_registry_url
from keyferry.images.reference import normalise

CodedMessage = tuple[str, str]  # code and message

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?=[^/])")
_USER_INFO = re.compile(r"\A[^/?#]*@")
# An upper-case letter makes a registry of a first part without a dot, as does the name localhost.
_FILLERS = ("a", "A", "localhost", "")
_STRANGE = re.compile(r"[^A-Za-z0-9.*-]")


def why_misread(pattern: Pattern) -> CodedMessage | None:
    """Why a pattern is not what it looks like: parts of it are ignored, or taken for something else."""
    text = pattern.text
    scheme = _SCHEME.match(text)
    if scheme:
        rest = _USER_INFO.sub("", text[scheme.end() :]).rstrip("/")
        return "KF150", f"it never matches: the scheme makes its host {pattern.url.host!r}; write {rest!r}"
    host = _USER_INFO.sub("", text)
    if host != text:
        return "KF156", f"what stands before the '@' is ignored, and no place for a password; write {host!r}"
    ignored = re.search(r"[?#]", text)
    if ignored:
        return "KF155", (
            f"{ignored[0]!r} is no wildcard: all from there on is ignored, and the pattern means "
            f"{text[: ignored.start()]!r}; use * for part of a host label"
        )
    return None


def why_unmatchable(pattern: Pattern) -> CodedMessage | None:
    """Why no image can match a pattern, None if one can."""
    if any(_is_covered(pattern, image) for image in _candidates(pattern)):
        return None
    reasons = (reason for check in _CHECKS if (reason := check(pattern)))
    return next(reasons, ("KF168", f"it never matches: no repository begins with {pattern.url.path[1:]!r}"))


def _candidates(pattern: Pattern) -> Iterator[str]:
    for suffix in ("", "/a", "a"):
        yield from _with_hosts(pattern, pattern.url.path + suffix)


def _with_hosts(pattern: Pattern, path: str) -> Iterator[str]:
    for filler in _FILLERS:
        yield pattern.url.authority.rstrip(":").replace("*", filler) + path


def _is_covered(pattern: Pattern, image: str) -> bool:
    name = _normalised(image)
    return bool(name) and fits(pattern, parse_registry_url(name))


def _normalised(image: str) -> str:
    try:
        return normalise(image)
    except ImageNameError:
        return ""


def _empty(pattern: Pattern) -> CodedMessage | None:
    if pattern.url.host:
        return None
    what = "the pattern is empty" if not pattern.text else "the pattern has no host"
    return "KF154", f"it never matches: {what}; write a registry such as 'registry.example'"


def _address(pattern: Pattern) -> CodedMessage | None:
    host = pattern.url.host
    if not host.startswith("["):
        return None
    return "KF157", (
        f"it never matches: without a port, {host!r} is read as a character class; write for "
        f"example {host + ':5000'!r}"
    )


def _hub_alias(pattern: Pattern) -> CodedMessage | None:
    return hub_alias(pattern) if pattern.url.host == LOGIN_HOST else None


def hub_alias(pattern: Pattern) -> CodedMessage | None:
    """What is wrong with a pattern for Docker Hub under another name."""
    host = pattern.url.host
    if host not in ALIASES:
        return None
    wanted = HUB + pattern.url.path
    return "KF160", (
        "it does not cover Docker Hub: its images are looked up as 'docker.io/...', never as "
        f"{host!r}; write {wanted!r}"
    )


def _host(pattern: Pattern) -> CodedMessage | None:
    if any(_normalised(image) for image in _with_hosts(pattern, "/a")):
        return None
    host = pattern.url.host
    strange = _STRANGE.search(host)
    if host.endswith("."):
        why = f"its host ends in a dot; write {host.rstrip('.') + pattern.url.path!r}"
    elif "" in host.split("."):
        why = f"its host {host!r} has an empty part between dots"
    elif strange:
        why = f"no image name can have {strange[0]!r} in its host"
    else:
        why = f"no image name can have the host {host!r}"
    return "KF158", f"it never matches: {why}"


def _short_host(pattern: Pattern) -> CodedMessage | None:
    name = _normalised(f"{pattern.url.authority.rstrip(':')}/a")
    if not name.startswith(f"{HUB}/") or pattern.url.host == HUB:
        return None
    host = pattern.url.host
    return "KF159", (
        f"it never matches: {host + '/app'!r} means 'docker.io/{host}/app'; write the full host name, "
        f"{host + '.example'!r}, or the port, {host + ':5000'!r}"
    )


def _path_wildcard(pattern: Pattern) -> CodedMessage | None:
    host, slash, path = pattern.text.partition("/")
    prefix, star, _ = path.partition("*")
    if not star:
        return None
    wanted = host + slash + prefix if prefix else host
    return "KF151", (
        "there are no wildcards in paths: this covers only paths that literally begin with "
        f"{'/' + prefix + '*'!r}, which no image has; a path is a prefix anyway, write {wanted!r}"
    )


def _tag(pattern: Pattern) -> CodedMessage | None:
    host, _, path = pattern.text.partition("/")
    cut = re.search(r"[:@]", path)
    if not cut:
        return None
    what = "digest" if cut[0] == "@" else "tag"
    return "KF153", (
        f"it never matches: images are matched without their {what}; write "
        f"{host + '/' + path[: cut.start()]!r}"
    )


def _upper_case(pattern: Pattern) -> CodedMessage | None:
    host, _, path = pattern.text.partition("/")
    if path == path.lower():
        return None
    return "KF152", f"it never matches: repositories are lower case; write {host + '/' + path.lower()!r}"


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
