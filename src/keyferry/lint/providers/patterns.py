"""Patterns that a kubelet accepts but that match other images than intended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from keyferry._core.docker_hub import HUB
from keyferry._core.paths import Path
from keyferry._core.user_info import hide_user_info
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import MatchError
from keyferry.images.match import Pattern, PatternIndex, parse_pattern
from keyferry.images.reasons.nearness import find_longer_cloud
from keyferry.lint.providers.unreachable import CodedMessage, hub_alias, why_misread, why_unmatchable

# The path in a provider, the code and the message.
Suspicion = tuple[Path, str, str]

_TOP_LEVEL = frozenset(
    {"io", "com", "net", "org", "dev", "cloud", "cn", "de", "eu", "us", "aws", "app", "co"}
)
_DEFAULT_PORTS = ("443", "80")
_WHOLE_TOP_LEVEL = 2


def check_patterns(provider: CredentialProvider) -> Iterator[Suspicion]:
    """Yield the suspicions about the patterns of one provider; patterns that cannot be parsed are refused elsewhere."""
    sound = []
    for index, pattern in parse_all(provider):
        reason = why_misread(pattern) or why_unmatchable(pattern)
        if reason is None:
            sound.append((index, pattern))
            reason = _first_reason(pattern)
        if reason:
            yield ("matchImages", index), reason[0], f"{hide_user_info(pattern.text)!r}: {reason[1]}"
    yield from _redundant(sound)


def parse_all(provider: CredentialProvider) -> list[tuple[int, Pattern]]:
    """Return the patterns of a provider that can be parsed, with their indices."""
    parsed = []
    for index, text in enumerate(provider.match_images or ()):
        try:
            parsed.append((index, parse_pattern(text)))
        except MatchError:
            continue
    return parsed


def check_shared(providers: Sequence[CredentialProvider]) -> Iterator[tuple[int, Suspicion]]:
    """Yield the patterns that an earlier provider also has, with the index of the provider."""
    owners: dict[tuple[object, ...], int] = {}
    for number, provider in enumerate(providers):
        for index, pattern in parse_all(provider):
            first = owners.setdefault(_identity(pattern), number)
            if first != number:
                message = (
                    f"{hide_user_info(pattern.text)!r} is also a pattern of {providers[first].name!r}: both plugins "
                    "are run, "
                    f"and the credentials of {providers[first].name!r} are tried first"
                )
                yield number, (("matchImages", index), "KF167", message)


def _identity(pattern: Pattern) -> tuple[object, ...]:
    return pattern.port, pattern.labels, pattern.raw_path.removesuffix("/")


def _first_reason(pattern: Pattern) -> CodedMessage | None:
    """Return the first reason only; others are reported after that one is corrected."""
    return next((reason for check in _CHECKS if (reason := check(pattern))), None)


def _broad(pattern: Pattern) -> CodedMessage | None:
    if pattern.raw_path.strip("/") or any(label.strip("*") or not label for label in pattern.labels):
        return None
    count = len(pattern.labels)
    parts = "1 label" if count == 1 else f"{count} labels"
    port = f" on port {pattern.port}" if pattern.port else ""
    return "KF165", (
        f"the plugin is run for every registry whose host has {parts}{port}, and its "
        "credentials may be sent "
        "to it; list the registries of the plugin"
    )


def _few_labels(pattern: Pattern) -> CodedMessage | None:
    host, count = pattern.host, len(pattern.labels)
    if "*" not in host:
        return None
    cloud = find_longer_cloud(host)
    if cloud is not None:
        return "KF163", (
            f"a * matches within one label of the host, so this matches hosts of {count} labels; those "
            f"of {cloud.name} have "
            f"{cloud.label_count}: use {cloud.pattern!r}"
        )
    if count == _WHOLE_TOP_LEVEL and not pattern.labels[0].strip("*") and pattern.labels[1] in _TOP_LEVEL:
        tail = pattern.labels[1]
        return "KF163", (
            f"a * matches within one label of the host, so this matches 'quay.{tail}' but not "
            f"'registry.quay.{tail}'; "
            "use one label for each label of the hosts"
        )
    return None


def _hub_image(pattern: Pattern) -> CodedMessage | None:
    name = pattern.raw_path[1:]
    if pattern.host != HUB or not name or "/" in name or name == "library":
        return None
    return "KF161", (
        f"it matches the images of the account {name!r}, not the official image, which is looked up as "
        f"'docker.io/library/{name}'; use that, or 'docker.io/{name}/' for the account"
    )


def _default_port(pattern: Pattern) -> CodedMessage | None:
    port = pattern.port
    if port not in _DEFAULT_PORTS:
        return None
    without = pattern.text.replace(f":{port}", "", 1)
    return "KF164", (
        f"it matches only images with port {port} in their name, which is rare; use {without!r}, or list both"
    )


def _boundary(pattern: Pattern) -> CodedMessage | None:
    if not pattern.raw_path or pattern.raw_path.endswith("/"):
        return None
    example = pattern.text + "-other/app"
    return "KF162", (
        f"a path is a string prefix, so it also matches {example!r}; use "
        f"{pattern.text + '/'!r} to match a folder"
    )


def _redundant(patterns: list[tuple[int, Pattern]]) -> Iterator[Suspicion]:
    texts = {index: pattern.text for index, pattern in patterns}
    places = PatternIndex(texts.items())
    for index, text in texts.items():
        for other, wider in places.match(text):
            if other < index or (other > index and (index, text) not in places.match(wider)):
                message = (
                    f"{hide_user_info(text)!r} is redundant: matchImages[{other}], {hide_user_info(wider)!r}, "
                    "matches the same images"
                )
                yield ("matchImages", index), "KF166", message
                break


def chinese_ecr(pattern: Pattern) -> str:
    """Return a pattern for ECR in China with the domain that its hosts have; empty for other patterns."""
    host, wrong = pattern.host, ".amazonaws.cn"
    if not host.endswith(wrong) or ".ecr." not in host:
        return ""
    return pattern.text.replace(wrong, ".amazonaws.com.cn", 1)


def _chinese_ecr(pattern: Pattern) -> CodedMessage | None:
    wanted = chinese_ecr(pattern)
    return ("KF169", f"hosts of ECR in China end in 'amazonaws.com.cn'; use {wanted!r}") if wanted else None


_CHECKS: tuple[Callable[[Pattern], CodedMessage | None], ...] = (
    hub_alias,
    _chinese_ecr,
    _broad,
    _few_labels,
    _hub_image,
    _default_port,
    _boundary,
)
