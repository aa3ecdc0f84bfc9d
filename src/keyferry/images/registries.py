"""Lookup for a registry as a whole, for tools that ask for a host and name no image.

Where providers match by path, a host alone does not say which of them is meant. Then there is an answer only if all of
them have the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from time import monotonic

from keyferry._core.docker_hub import HUB
from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import ImageNameError, MatchError
from keyferry.images.answer import Answer, Failure
from keyferry.images.keyring import Credential, SourceKind
from keyferry.images.lookup import Providers
from keyferry.images.match import Pattern, is_literal, matches, parse_pattern, parse_registry_url
from keyferry.images.reference import ImageName, parse_image

# A repository for a question that any repository would answer; nobody pulls it.
ANY_REPOSITORY = "keyferry"


class RegistryOutcome(StrEnum):
    """What is known about a registry."""

    FOUND = "found"
    NONE = "none"
    AMBIGUOUS = "ambiguous"
    FAILED = "failed"


class RegistryAnswer(Value):
    """The credential for a registry, or why there is none.

    *candidates* are the images that were looked up; *expires_ns* is when the first of their answers expires, on the
    clock of the providers.
    """

    outcome: RegistryOutcome
    credential: Credential | None = None
    candidates: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = field(default=(), repr=False)
    expires_ns: int | None = None


def paths_of(configs: Sequence[CredentialProvider], host: str) -> tuple[str, ...]:
    """Return the paths for which providers match images of *host*, without repeats; an empty path means any."""
    patterns = [pattern for config in configs for pattern in _patterns(config)]
    return tuple(dict.fromkeys(pattern.path for pattern in patterns if _is_for(pattern, host)))


def exact_registries(configs: Sequence[CredentialProvider]) -> tuple[str, ...]:
    """Return the hosts that patterns name without globs and paths."""
    patterns = (pattern for config in configs for pattern in _patterns(config))
    return tuple(dict.fromkeys(pattern.authority for pattern in patterns if _is_exact(pattern)))


def images_of(configs: Sequence[CredentialProvider], host: str) -> tuple[ImageName, ...]:
    """Return one image for each path for which providers match images of *host*."""
    images = []
    for path in paths_of(configs, host):
        try:
            images.append(parse_image(_image(host, path)))
        except ImageNameError:
            continue  # no image has such a name, so the pattern matches none
    return tuple(images)


def lookup_registry(
    providers: Providers, host: str, *, timeout_seconds: float | None = None
) -> RegistryAnswer:
    """Return the first credential that providers have for every image of *host*, if it is the same for all."""
    until = None if timeout_seconds is None else monotonic() + timeout_seconds
    answers = []
    for image in images_of(providers.configs, host):
        left = None if until is None else max(until - monotonic(), 0.001)
        answers.append(providers.lookup(image, timeout_seconds=left))
    return combine(answers)


async def lookup_registry_async(providers: Providers, host: str) -> RegistryAnswer:
    """Return what ``lookup_registry`` returns, without blocking the event loop."""
    return combine([await providers.lookup_async(image) for image in images_of(providers.configs, host)])


def combine(answers: Sequence[Answer]) -> RegistryAnswer:
    """Return one answer for a registry from those for its images."""
    failures = tuple(failure for answer in answers for failure in answer.failures)
    found = [
        next((each for each in answer.credentials if each.source.kind is SourceKind.PROVIDER), None)
        for answer in answers
    ]
    provisions = (provision for answer in answers for provision in answer.provisions if provision.auth)
    ends = [each.expires_ns for each in provisions if each.expires_ns is not None]
    outcome = _outcome(found, failures)
    return RegistryAnswer(
        outcome=outcome,
        credential=found[0] if outcome is RegistryOutcome.FOUND else None,
        candidates=tuple(answer.name for answer in answers),
        failures=failures,
        expires_ns=min(ends, default=None),
    )


def _outcome(found: Sequence[Credential | None], failures: Sequence[Failure]) -> RegistryOutcome:
    logins = {None if each is None else (each.username, each.password) for each in found}
    if len(logins) == 1 and None not in logins:
        return RegistryOutcome.FOUND
    if failures:
        return RegistryOutcome.FAILED
    return RegistryOutcome.AMBIGUOUS if len(logins) > 1 else RegistryOutcome.NONE


def _patterns(config: CredentialProvider) -> list[Pattern]:
    patterns = []
    for text in config.match_images or ():
        try:
            patterns.append(parse_pattern(text))
        except MatchError:
            continue
    return patterns


def _is_for(pattern: Pattern, host: str) -> bool:
    try:
        return matches(pattern, parse_registry_url(host + pattern.path))
    except MatchError:
        return False


def _is_exact(pattern: Pattern) -> bool:
    return pattern.path in ("", "/") and all(glob is not None and is_literal(glob) for glob in pattern.globs)


def _image(host: str, path: str) -> str:
    """Return an image that a pattern with this path matches."""
    if path and not path.endswith("/"):
        return host + path
    library = "/library" if host == HUB and not path.strip("/") else ""
    return f"{host}{library}{path or '/'}{ANY_REPOSITORY}"
