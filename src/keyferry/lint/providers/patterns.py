"""Patterns that a kubelet accepts and that cover other images than people mean."""

from collections.abc import Callable, Iterator, Sequence

from keyferry._core.docker_hub import HUB
from keyferry._core.paths import Path
from keyferry._core.user_info import hide_user_info
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import MatchError
from keyferry.images.match.index import PatternIndex
from keyferry.images.match.rules import Pattern, parse_pattern
from keyferry.lint.providers.unreachable import CodedMessage, hub_alias, why_misread, why_unmatchable

# Where in a provider, which code, and what to say.
Suspicion = tuple[Path, str, str]

# Registries whose hosts have more labels than a short wildcard covers: how many, and what to write.
_CLOUDS = (
    ("amazonaws.com", 6, "ECR", "*.dkr.ecr.*.amazonaws.com"),
    ("amazonaws.com.cn", 7, "ECR", "*.dkr.ecr.*.amazonaws.com.cn"),
    ("gcr.io", 3, "GCR", "*.gcr.io"),
    ("azurecr.io", 3, "ACR", "*.azurecr.io"),
    ("pkg.dev", 3, "Artifact Registry", "*-docker.pkg.dev"),
)
_TOP_LEVEL = frozenset(
    {"io", "com", "net", "org", "dev", "cloud", "cn", "de", "eu", "us", "aws", "app", "co"}
)
_DEFAULT_PORTS = ("443", "80")
_WHOLE_TOP_LEVEL = 2


def check_patterns(provider: CredentialProvider) -> Iterator[Suspicion]:
    """What is odd about the patterns of one provider; those that do not parse are refused elsewhere."""
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
    """The patterns of a provider that parse, and where they stand."""
    parsed = []
    for index, text in enumerate(provider.match_images or ()):
        try:
            parsed.append((index, parse_pattern(text)))
        except MatchError:
            continue
    return parsed


def check_shared(providers: Sequence[CredentialProvider]) -> Iterator[tuple[int, Suspicion]]:
    """Patterns that a provider before this one has too; with the place of the provider."""
    owners: dict[tuple[object, ...], int] = {}
    for number, provider in enumerate(providers):
        for index, pattern in parse_all(provider):
            first = owners.setdefault(_identity(pattern), number)
            if first != number:
                message = (
                    f"{hide_user_info(pattern.text)!r} is a pattern of {providers[first].name!r} too: both plugins "
                    "are run, "
                    f"and the credentials of {providers[first].name!r} are tried first"
                )
                yield number, (("matchImages", index), "KF167", message)


def _identity(pattern: Pattern) -> tuple[object, ...]:
    return pattern.url.port, pattern.labels, pattern.path.removesuffix("/")


def _first_reason(pattern: Pattern) -> CodedMessage | None:
    """One reason for each pattern: the rest is looked at again once that is mended."""
    return next((reason for check in _CHECKS if (reason := check(pattern))), None)


def _broad(pattern: Pattern) -> CodedMessage | None:
    if pattern.path.strip("/") or any(label.strip("*") or not label for label in pattern.labels):
        return None
    count = len(pattern.labels)
    parts = "1 part" if count == 1 else f"{count} parts"
    port = f" on port {pattern.url.port}" if pattern.url.port else ""
    return "KF165", (
        f"the plugin is run for every registry whose host has {parts}{port}, and what it "
        "answers may be offered "
        "to it; name the registries it is for"
    )


def _few_labels(pattern: Pattern) -> CodedMessage | None:
    host, count = pattern.url.host, len(pattern.labels)
    if "*" not in host:
        return None
    for domain, needed, who, wanted in _CLOUDS:
        if host.endswith(domain) and count < needed:
            return "KF163", (
                f"a * stays within one part of the host, so this covers hosts of {count} parts; those "
                f"of {who} have "
                f"{needed}: write {wanted!r}"
            )
    if count == _WHOLE_TOP_LEVEL and not pattern.labels[0].strip("*") and pattern.labels[1] in _TOP_LEVEL:
        tail = pattern.labels[1]
        return "KF163", (
            f"a * stays within one part of the host, so this covers 'quay.{tail}' and not "
            f"'registry.quay.{tail}'; "
            "write one part for each part of the hosts that are meant"
        )
    return None


def _hub_image(pattern: Pattern) -> CodedMessage | None:
    name = pattern.path[1:]
    if pattern.url.host != HUB or not name or "/" in name or name == "library":
        return None
    return "KF161", (
        f"it covers the images of the account {name!r}, not the official image, which is looked up as "
        f"'docker.io/library/{name}'; write that, or 'docker.io/{name}/' for the account"
    )


def _default_port(pattern: Pattern) -> CodedMessage | None:
    port = pattern.url.port
    if port not in _DEFAULT_PORTS:
        return None
    without = pattern.text.replace(f":{port}", "", 1)
    return "KF164", (
        f"it covers only images that name port {port}, which few do; write {without!r}, or list both"
    )


def _boundary(pattern: Pattern) -> CodedMessage | None:
    if not pattern.path or pattern.path.endswith("/"):
        return None
    example = pattern.text + "-other/app"
    return "KF162", (
        f"a path is a plain prefix, so {example!r} is covered too; write "
        f"{pattern.text + '/'!r} if a folder is meant"
    )


def _redundant(patterns: list[tuple[int, Pattern]]) -> Iterator[Suspicion]:
    texts = {index: pattern.text for index, pattern in patterns}
    places = PatternIndex(texts.items())
    for index, text in texts.items():
        for other, wider in places.match(text):
            if other < index or (other > index and (index, text) not in places.match(wider)):
                message = (
                    f"{hide_user_info(text)!r} adds nothing: matchImages[{other}], {hide_user_info(wider)!r}, "
                    "covers the same images"
                )
                yield ("matchImages", index), "KF166", message
                break


_CHECKS: tuple[Callable[[Pattern], CodedMessage | None], ...] = (
    hub_alias,
    _broad,
    _few_labels,
    _hub_image,
    _default_port,
    _boundary,
)
