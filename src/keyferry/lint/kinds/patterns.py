"""Lint the patterns of a provider: those that no image can match, and those that match other images than intended.

The matching rules are not repeated here: a pattern is tried on image names that are made to match it. If the
kubelet would match none of them, the most helpful reason is reported. Only the first reason is: others are reported
after that one is corrected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from keyferry._core.docker_hub import ALIASES, HUB, LOGIN_HOST
from keyferry._core.severity import Severity
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import replace
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import ImageNameError, MatchError
from keyferry.images.match import Pattern, PatternIndex, matches, parse_pattern, parse_registry_url
from keyferry.images.reasons.nearness import find_longer_cloud
from keyferry.images.reference import normalise
from keyferry.lint.code import Code, Finding, Rules

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?=[^/])")
_USER_INFO = re.compile(r"\A[^/?#]*@")
# A first part without a dot is a registry if it has an upper-case letter or is localhost.
_FILLERS = ("a", "A", "localhost", "")
_STRANGE = re.compile(r"[^A-Za-z0-9.*-]")
_TOP_LEVEL = frozenset(
    {"io", "com", "net", "org", "dev", "cloud", "cn", "de", "eu", "us", "aws", "app", "co"}
)
_DEFAULT_PORTS = ("443", "80")
_WHOLE_TOP_LEVEL = 2

# Parts of a pattern that are ignored or read as something else; why no image matches; what else it matches.
misread_rule = Rules[Pattern]()
unmatched_rule = Rules[Pattern]()
sound_rule = Rules[Pattern]()


def check_patterns(provider: CredentialProvider) -> Iterator[Finding]:
    """Yield the suspicions about the patterns of one provider; patterns that cannot be parsed are refused elsewhere."""
    sound = []
    for index, pattern in _parse_all(provider):
        finding = next(misread_rule.check(pattern), None)
        if finding is None and not _has_images(pattern):
            finding = next(unmatched_rule.check(pattern))
        if finding is None:
            sound.append((index, pattern))
            finding = next(sound_rule.check(pattern), None)
        if finding is not None:
            message = f"{hide_user_info(pattern.text)!r}: {finding.message}"
            yield replace(finding, message=message, at=("matchImages", index))
    yield from _find_redundant(sound)


def _parse_all(provider: CredentialProvider) -> list[tuple[int, Pattern]]:
    """Return the patterns of a provider that can be parsed, with their indices."""
    parsed = []
    for index, text in enumerate(provider.match_images or ()):
        try:
            parsed.append((index, parse_pattern(text)))
        except MatchError:
            continue
    return parsed


def _has_images(pattern: Pattern) -> bool:
    """Return whether some image matches."""
    for suffix in ("", "/a", "a"):
        for image in _with_hosts(pattern, pattern.path + suffix):
            name = _normalised(image)
            if name and matches(pattern, parse_registry_url(name)):
                return True
    return False


def _with_hosts(pattern: Pattern, path: str) -> Iterator[str]:
    for filler in _FILLERS:
        yield pattern.authority.rstrip(":").replace("*", filler) + path


def _normalised(image: str) -> str:
    try:
        return normalise(image)
    except ImageNameError:
        return ""


# Several patterns.

KF166 = Code(
    "KF166",
    Severity.INFO,
    "a pattern is redundant",
    why="another pattern of the same provider matches the same images",
    fix="remove it",
)


def _find_redundant(patterns: list[tuple[int, Pattern]]) -> Iterator[Finding]:
    texts = {index: pattern.text for index, pattern in patterns}
    places = PatternIndex(texts.items())
    for index, text in texts.items():
        for other, wider in places.match(text):
            if other < index or (other > index and (index, text) not in places.match(wider)):
                message = (
                    f"{hide_user_info(text)!r} is redundant: matchImages[{other}], {hide_user_info(wider)!r}, "
                    "matches the same images"
                )
                yield KF166.at("matchImages", index, message=message)
                break


KF167 = Code(
    "KF167",
    Severity.INFO,
    "two providers have the same pattern",
    why=(
        "both plugins are run for such an image, and the credentials of both are tried, "
        "the earlier provider's first"
    ),
    fix="keep it in one provider, unless both are intended",
)


def find_shared_patterns(providers: Sequence[CredentialProvider]) -> Iterator[tuple[int, Finding]]:
    """Yield the patterns that an earlier provider also has, with the index of the provider."""
    owners: dict[tuple[object, ...], int] = {}
    for number, provider in enumerate(providers):
        for index, pattern in _parse_all(provider):
            identity = pattern.port, pattern.labels, pattern.raw_path.removesuffix("/")
            first = owners.setdefault(identity, number)
            if first != number:
                message = (
                    f"{hide_user_info(pattern.text)!r} is also a pattern of {providers[first].name!r}: both plugins "
                    "are run, "
                    f"and the credentials of {providers[first].name!r} are tried first"
                )
                yield number, KF167.at("matchImages", index, message=message)


# Parts that are ignored or read as something else.

KF150 = Code(
    "KF150",
    Severity.WARNING,
    "a pattern has a scheme",
    why="'https://reg.io' is read as the host 'https', so the pattern never matches",
    fix="remove the scheme",
)


@misread_rule(KF150)
def scheme(pattern: Pattern) -> Iterator[Finding]:
    """A scheme, which is read as the host."""
    rest = without_scheme(pattern)
    if rest:
        yield KF150.at(
            message=f"it never matches: with the scheme its host is {pattern.host!r}; use {rest!r}"
        )


def without_scheme(pattern: Pattern) -> str:
    """Return a pattern without its scheme and what else is ignored; empty if it has none."""
    found = _SCHEME.match(pattern.text)
    return _USER_INFO.sub("", pattern.text[found.end() :]).rstrip("/") if found else ""


KF156 = Code(
    "KF156",
    Severity.WARNING,
    "a pattern has user info",
    why="the part before an '@' is ignored; a password must not be in this file",
    fix="use only the part after the '@'",
)


@misread_rule(KF156)
def user_info(pattern: Pattern) -> Iterator[Finding]:
    """A user name or password."""
    host = without_user_info(pattern)
    if host:
        message = f"the part before the '@' is ignored, and must not contain a password; use {host!r}"
        yield KF156.at(message=message)


def without_user_info(pattern: Pattern) -> str:
    """Return a pattern without the part before its '@'; empty if it has none."""
    host = _USER_INFO.sub("", pattern.text)
    return "" if host == pattern.text else host


KF155 = Code(
    "KF155",
    Severity.WARNING,
    "a pattern has a '?' or '#'",
    why="they are not wildcards: patterns are URLs, and everything from these characters on is ignored",
    fix="use * for part of a host label, and remove the rest",
)


@misread_rule(KF155)
def query(pattern: Pattern) -> Iterator[Finding]:
    """A '?' or '#', which are no wildcards."""
    ignored = re.search(r"[?#]", pattern.text)
    if ignored:
        message = (
            f"{ignored[0]!r} is not a wildcard: everything from there on is ignored, and the pattern means "
            f"{pattern.text[: ignored.start()]!r}; use * for part of a host label"
        )
        yield KF155.at(message=message)


# Why no image matches.

KF154 = Code(
    "KF154",
    Severity.WARNING,
    "a pattern has no host",
    why="every image has a registry, so the pattern never matches",
    fix="add the registry's host, or remove the pattern",
)


@unmatched_rule(KF154)
def empty(pattern: Pattern) -> Iterator[Finding]:
    """No host."""
    if not pattern.host:
        what = "the pattern is empty" if not pattern.text else "the pattern has no host"
        yield KF154.at(message=f"it never matches: {what}; use a registry such as 'registry.example'")


KF157 = Code(
    "KF157",
    Severity.WARNING,
    "a pattern has an IPv6 address without a port",
    why="without a port the brackets are read as a character class, so the address does not match itself",
    fix="add the port, and use it in image names too",
)


@unmatched_rule(KF157)
def address(pattern: Pattern) -> Iterator[Finding]:
    """An IPv6 address without a port."""
    host = pattern.host
    if host.startswith("["):
        message = (
            f"it never matches: without a port, {host!r} is read as a character class; use for "
            f"example {host + ':5000'!r}"
        )
        yield KF157.at(message=message)


KF160 = Code(
    "KF160",
    Severity.WARNING,
    "a pattern has another name of Docker Hub",
    why="images of Docker Hub are always looked up with the registry docker.io",
    fix="use docker.io",
)


@unmatched_rule(KF160)
def hub_login(pattern: Pattern) -> Iterator[Finding]:
    """The host with which docker logs in to Docker Hub."""
    if pattern.host == LOGIN_HOST:
        yield from hub_alias(pattern)


@sound_rule(KF160)
def hub_alias(pattern: Pattern) -> Iterator[Finding]:
    """Another name of Docker Hub."""
    wanted = with_hub_name(pattern)
    if wanted:
        message = (
            "it does not match Docker Hub: its images are looked up as 'docker.io/...', never as "
            f"{pattern.host!r}; use {wanted!r}"
        )
        yield KF160.at(message=message)


def with_hub_name(pattern: Pattern) -> str:
    """Return a pattern for Docker Hub with the name that images have; empty if it has another host."""
    return HUB + pattern.path if pattern.host in ALIASES else ""


KF158 = Code(
    "KF158",
    Severity.WARNING,
    "a pattern has a host that no image can have",
    why="image names cannot have a trailing dot, an empty label or a dash at the end of a label, so it never matches",
    fix="correct the host",
)


@unmatched_rule(KF158)
def host(pattern: Pattern) -> Iterator[Finding]:
    """A host that no image can have."""
    if any(_normalised(image) for image in _with_hosts(pattern, "/a")):
        return
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
    yield KF158.at(message=f"it never matches: {why}")


def without_final_dot(pattern: Pattern) -> str:
    """Return a pattern without the dot at the end of its host; empty if it has none."""
    return pattern.host.rstrip(".") + pattern.path if pattern.host.endswith(".") else ""


KF159 = Code(
    "KF159",
    Severity.WARNING,
    "a pattern has a host without a dot or a port",
    why="the image 'registry/app' means docker.io/registry/app, so a pattern 'registry' never matches",
    fix="use the full host name, or add the port",
)


@unmatched_rule(KF159)
def short_host(pattern: Pattern) -> Iterator[Finding]:
    """A host that is read as an account of Docker Hub."""
    name, host = _normalised(f"{pattern.authority.rstrip(':')}/a"), pattern.host
    if name.startswith(f"{HUB}/") and host != HUB:
        message = (
            f"it never matches: {host + '/app'!r} means 'docker.io/{host}/app'; use the full host name, "
            f"{host + '.example'!r}, or add the port, {host + ':5000'!r}"
        )
        yield KF159.at(message=message)


KF151 = Code(
    "KF151",
    Severity.WARNING,
    "a pattern has a wildcard in its path",
    why=(
        "there are no wildcards in paths: 'reg.io/*' matches only paths that begin with the "
        "characters '/*', which no image has"
    ),
    fix="end the pattern before the *, because a path is a prefix",
)


@unmatched_rule(KF151)
def path_wildcard(pattern: Pattern) -> Iterator[Finding]:
    """A wildcard in a path."""
    prefix, star, _ = pattern.text.partition("/")[2].partition("*")
    if star:
        message = (
            "there are no wildcards in paths: this matches only paths that begin with the characters "
            f"{'/' + prefix + '*'!r}, which no image has; a path is a prefix, so use {_before_wildcard(pattern)!r}"
        )
        yield KF151.at(message=message)


def _before_wildcard(pattern: Pattern) -> str:
    host, slash, path = pattern.text.partition("/")
    prefix = path.partition("*")[0]
    return host + slash + prefix if prefix else host


def without_final_wildcard(pattern: Pattern) -> str:
    """Return a pattern without the wildcard at the end of its path; one in the middle has no right answer."""
    _, star, rest = pattern.text.partition("/")[2].partition("*")
    return "" if not star or rest.strip("*/") else _before_wildcard(pattern)


KF153 = Code(
    "KF153",
    Severity.WARNING,
    "a pattern has a tag or digest",
    why="tag and digest are removed from the image before it is matched, so the pattern never matches",
    fix="use the repository only",
)


@unmatched_rule(KF153)
def tag(pattern: Pattern) -> Iterator[Finding]:
    """A tag or digest."""
    wanted = without_tag(pattern)
    if wanted:
        what = "digest" if pattern.text[len(wanted)] == "@" else "tag"
        yield KF153.at(message=f"it never matches: images are matched without their {what}; use {wanted!r}")


def without_tag(pattern: Pattern) -> str:
    """Return a pattern without its tag or digest; empty if it has none."""
    host, slash, path = pattern.text.partition("/")
    cut = re.search(r"[:@]", path)
    return host + slash + path[: cut.start()] if cut else ""


KF152 = Code(
    "KF152",
    Severity.WARNING,
    "a pattern has upper case in its path",
    why="repositories are always lower case, and matching is case-sensitive, so the pattern never matches",
    fix="write the path in lower case",
)


@unmatched_rule(KF152)
def upper_case(pattern: Pattern) -> Iterator[Finding]:
    """Upper case in a path."""
    wanted = in_lower_case(pattern)
    if wanted:
        yield KF152.at(message=f"it never matches: repositories are lower case; use {wanted!r}")


def in_lower_case(pattern: Pattern) -> str:
    """Return a pattern with its path in lower case; empty if it has no other."""
    host, slash, path = pattern.text.partition("/")
    return host + slash + path.lower() if path != path.lower() else ""


KF168 = Code(
    "KF168",
    Severity.WARNING,
    "a pattern has a path that no image can have",
    why=(
        "repository names are lower-case letters and digits, joined by '.', '_', '-' and '/', "
        "so the pattern never matches"
    ),
    fix="correct the path",
)


@unmatched_rule(KF168)
def strange_path(pattern: Pattern) -> Iterator[Finding]:
    """Any other reason is in the path."""
    yield KF168.at(message=f"it never matches: no repository begins with {pattern.path[1:]!r}")


# What a pattern matches that was probably not meant.

KF169 = Code(
    "KF169",
    Severity.WARNING,
    "a pattern has a domain that ECR does not have",
    why="hosts of ECR in China end in amazonaws.com.cn, so a pattern with amazonaws.cn matches none of them",
    fix="end the host with amazonaws.com.cn",
)


@sound_rule(KF169)
def chinese_ecr(pattern: Pattern) -> Iterator[Finding]:
    """A domain that ECR does not have."""
    wanted = with_chinese_domain(pattern)
    if wanted:
        yield KF169.at(message=f"hosts of ECR in China end in 'amazonaws.com.cn'; use {wanted!r}")


def with_chinese_domain(pattern: Pattern) -> str:
    """Return a pattern for ECR in China with the domain that its hosts have; empty for other patterns."""
    host, wrong = pattern.host, ".amazonaws.cn"
    if not host.endswith(wrong) or ".ecr." not in host:
        return ""
    return pattern.text.replace(wrong, ".amazonaws.com.cn", 1)


KF165 = Code(
    "KF165",
    Severity.WARNING,
    "a pattern matches every registry",
    why=(
        "the plugin is run for every registry with that many labels, and its credentials may "
        "be sent to that registry"
    ),
    fix="list the registries of the plugin",
)


@sound_rule(KF165)
def broad(pattern: Pattern) -> Iterator[Finding]:
    """A pattern for every registry."""
    if pattern.raw_path.strip("/") or any(label.strip("*") or not label for label in pattern.labels):
        return
    count = len(pattern.labels)
    parts = "1 label" if count == 1 else f"{count} labels"
    port = f" on port {pattern.port}" if pattern.port else ""
    message = (
        f"the plugin is run for every registry whose host has {parts}{port}, and its credentials may be sent "
        "to it; list the registries of the plugin"
    )
    yield KF165.at(message=message)


KF163 = Code(
    "KF163",
    Severity.WARNING,
    "a wildcard matches fewer hosts than expected",
    why="a * matches exactly one dot-separated label or a part of it, never several labels",
    fix="use one label for each label of the host, such as *.dkr.ecr.*.amazonaws.com",
)


@sound_rule(KF163)
def few_labels(pattern: Pattern) -> Iterator[Finding]:
    """A wildcard that was meant for several labels."""
    host, count = pattern.host, len(pattern.labels)
    if "*" not in host:
        return
    within = "a * matches within one label of the host, so this matches"
    cloud = find_longer_cloud(host)
    if cloud is not None:
        message = (
            f"{within} hosts of {count} labels; those of {cloud.name} have {cloud.label_count}: "
            f"use {cloud.pattern!r}"
        )
        yield KF163.at(message=message)
    elif count == _WHOLE_TOP_LEVEL and not pattern.labels[0].strip("*") and pattern.labels[1] in _TOP_LEVEL:
        tail = pattern.labels[1]
        message = f"{within} 'quay.{tail}' but not 'registry.quay.{tail}'; use one label for each label of the hosts"
        yield KF163.at(message=message)


KF161 = Code(
    "KF161",
    Severity.WARNING,
    "a pattern for an image of Docker Hub has no 'library/'",
    why=(
        "docker.io/nginx is looked up as docker.io/library/nginx, so a pattern "
        "'docker.io/nginx' matches only the account of that name"
    ),
    fix="use docker.io/library/NAME for the official image, docker.io/NAME/ for the account",
)


@sound_rule(KF161)
def hub_image(pattern: Pattern) -> Iterator[Finding]:
    """An image of Docker Hub without ``library/``."""
    name = pattern.raw_path[1:]
    if pattern.host == HUB and name and "/" not in name and name != "library":
        message = (
            f"it matches the images of the account {name!r}, not the official image, which is looked up as "
            f"'docker.io/library/{name}'; use that, or 'docker.io/{name}/' for the account"
        )
        yield KF161.at(message=message)


KF164 = Code(
    "KF164",
    Severity.WARNING,
    "a pattern has the default port",
    why="ports are compared as strings: 'reg.io:443' does not match 'reg.io/app', only 'reg.io:443/app'",
    fix="remove the port, or list both",
)


@sound_rule(KF164)
def default_port(pattern: Pattern) -> Iterator[Finding]:
    """A port that image names do not have."""
    port = pattern.port
    if port in _DEFAULT_PORTS:
        without = pattern.text.replace(f":{port}", "", 1)
        message = f"it matches only images with port {port} in their name, which is rare; use {without!r}, or list both"
        yield KF164.at(message=message)


KF162 = Code(
    "KF162",
    Severity.INFO,
    "a pattern has a path without a final slash",
    why=(
        "a path is a string prefix: 'reg.io/team' also matches 'reg.io/team-evil', so the plugin "
        "is run for it"
    ),
    fix="end the path with '/' to match a folder; a pattern cannot match only one image",
)


@sound_rule(KF162)
def boundary(pattern: Pattern) -> Iterator[Finding]:
    """A path that is a prefix of other names."""
    if pattern.raw_path and not pattern.raw_path.endswith("/"):
        example = pattern.text + "-other/app"
        message = (
            f"a path is a string prefix, so it also matches {example!r}; use "
            f"{pattern.text + '/'!r} to match a folder"
        )
        yield KF162.at(message=message)
