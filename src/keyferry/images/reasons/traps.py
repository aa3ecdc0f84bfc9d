"""Traps: correct answers that are surprising, because people expect other rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import pairwise

from keyferry._core.docker_hub import ALIASES, HUB, LOGIN_HOST
from keyferry._core.reasons import Reason, ReasonStage
from keyferry._core.user_info import hide_user_info
from keyferry.images.answer import Answer, ProvisionOutcome
from keyferry.images.keyring import Credential, Source, SourceKind
from keyferry.images.match import MatchRule, explain_match
from keyferry.images.reasons.nearness import find_near_miss

_ANSWERED = (ProvisionOutcome.CACHED, ProvisionOutcome.RAN, ProvisionOutcome.SHARED)


class ImageTrap(StrEnum):
    """The kinds of traps in an answer for an image."""

    PORT = "port"
    PATH_WILDCARD = "path-wildcard"
    PATH_BOUNDARY = "path-boundary"
    DOCKER_HUB = "docker-hub"
    LABEL_COUNT = "label-count"
    LETTER_CASE = "letter-case"
    QUERY = "query"
    CHARACTER_CLASS = "character-class"
    STRAY_AUTH_KEYS = "stray-auth-keys"
    EMPTY_ANSWER = "empty-answer"
    GENERAL_FIRST = "general-first"
    DEFAULT_REGISTRY = "default-registry"
    SAME_KEY = "same-key"
    EMPTY_LOGIN = "empty-login"


def traps_for(answer: Answer) -> tuple[Reason, ...]:
    """Return the traps that apply to *answer*."""
    found = [trap for check in _TRAP_CHECKS for trap in check(answer)]
    return tuple({(trap.outcome, trap.subject): trap for trap in found}.values())


def _trap(outcome: ImageTrap, subject: str, text: str) -> Reason:
    return Reason(stage=ReasonStage.TRAP, subject=subject, outcome=outcome, text=text)


def _patterns(answer: Answer) -> Iterator[tuple[str, str]]:
    """Yield the patterns that do not match the image, each with its provider, without the user info."""
    matching = dict(answer.matching)
    for index, provider in enumerate(answer.providers):
        for pattern in provider.match_images or () if index not in matching else ():
            yield provider.name, hide_user_info(pattern)


def _wanted(provider: str, pattern: str, answer: Answer) -> str:
    """Return the pattern that would match instead of one that nearly does."""
    return find_near_miss(Source(kind=SourceKind.PROVIDER, name=provider), pattern, answer.name).wanted


def _port(answer: Answer) -> Iterator[Reason]:
    host, _, _ = answer.name.partition("/")
    bare, _, port = host.rpartition(":")
    for provider, pattern in _patterns(answer):
        pattern_host, slash, path = pattern.partition("/")
        if port.isdigit() and bare:
            wanted = f"{pattern_host}:{port}{slash}{path}"
        else:
            wanted = f"{pattern_host.partition(':')[0]}{slash}{path}"
        if wanted != pattern and explain_match(wanted, answer.name).matched:
            text = (
                f"pattern {pattern!r} of {provider!r} differs from the image in the port alone: a pattern without "
                f"a port matches only images without one; {wanted!r} would match it"
            )
            yield _trap(ImageTrap.PORT, pattern, text)


def _path_wildcard(answer: Answer) -> Iterator[Reason]:
    for provider, pattern in _patterns(answer):
        host, _, path = pattern.partition("/")
        prefix = path.partition("*")[0]
        wanted = f"{host}/{prefix}" if prefix else host
        if "*" in path and explain_match(wanted, answer.name).matched:
            text = (
                f"pattern {pattern!r} of {provider!r} has a * in its path, where it is an ordinary character; "
                f"a path matches as a prefix: {_wanted(provider, pattern, answer)!r} matches this image"
            )
            yield _trap(ImageTrap.PATH_WILDCARD, pattern, text)


def _boundary(answer: Answer) -> Iterator[Reason]:
    used = [(hide_user_info(pattern), "pattern") for _, pattern in answer.matching]
    used += [(credential.key, "auth key") for credential in answer.credentials]
    _, _, image_path = answer.name.partition("/")
    for text, kind in used:
        path = text.split("://")[-1].partition("/")[2]
        if (
            path
            and not path.endswith("/")
            and image_path.startswith(path)
            and image_path[len(path) : len(path) + 1] not in ("", "/")
        ):
            yield _trap(
                ImageTrap.PATH_BOUNDARY,
                text,
                f"{kind} {text!r} matches this image only because a path is a plain prefix, "
                f"which need not end at a '/'; write {text + '/'!r} to match only images below that path",
            )


def _hub_alias(answer: Answer) -> Iterator[Reason]:
    if not answer.name.startswith(f"{HUB}/"):
        return
    for provider, pattern in _patterns(answer):
        host, _, _ = pattern.partition("/")
        if host in ALIASES:
            text = (
                f"pattern {pattern!r} of {provider!r} matches nothing: images of Docker Hub are always looked up as "
                f"docker.io/...; write 'docker.io'"
            )
            yield _trap(ImageTrap.DOCKER_HUB, pattern, text)
        elif (
            host == HUB
            and explain_match(pattern.replace(f"{HUB}/", f"{HUB}/library/", 1), answer.name).matched
        ):
            text = f"pattern {pattern!r} of {provider!r} lacks 'library/': this image is looked up as {answer.name}"
            yield _trap(ImageTrap.DOCKER_HUB, pattern, text)


def _label_count(answer: Answer) -> Iterator[Reason]:
    host = answer.name.partition("/")[0].partition(":")[0]
    for provider, pattern in _patterns(answer):
        pattern_host = pattern.partition("/")[0].partition(":")[0]
        stem = pattern_host.removeprefix("*.")
        if (
            stem != pattern_host
            and host.endswith("." + stem)
            and explain_match(pattern, answer.name).rule is MatchRule.LABEL_COUNT
        ):
            text = (
                f"pattern {pattern!r} of {provider!r}: a wildcard stands for exactly one part of a host name, "
                f"and {host} has more; {_wanted(provider, pattern, answer)!r} would match it"
            )
            yield _trap(ImageTrap.LABEL_COUNT, pattern, text)


def _letter_case(answer: Answer) -> Iterator[Reason]:
    for provider, pattern in _patterns(answer):
        if pattern != pattern.lower() and explain_match(pattern.lower(), answer.name.lower()).matched:
            text = f"pattern {pattern!r} of {provider!r} differs from the image in upper and lower case, which matters"
            yield _trap(ImageTrap.LETTER_CASE, pattern, text)


def _query(answer: Answer) -> Iterator[Reason]:
    for provider, pattern in _patterns(answer):
        if "?" in pattern or "#" in pattern:
            text = f"pattern {pattern!r} of {provider!r}: '?' and '#' are not wildcards, they end the pattern"
            yield _trap(ImageTrap.QUERY, pattern, text)
        elif "[" in pattern:
            text = f"pattern {pattern!r} of {provider!r}: character classes do not work in patterns"
            yield _trap(ImageTrap.CHARACTER_CLASS, pattern, text)


def _stray_keys(answer: Answer) -> Iterator[Reason]:
    given = {(credential.source.name, credential.key) for credential in answer.credentials}
    for provision in answer.provisions:
        stray = [key for key in provision.auth if (provision.provider, key) not in given]
        if stray and len(stray) == len(provision.auth):
            shown = ", ".join(map(repr, stray[:3])) + (", ..." if len(stray) > 3 else "")
            text = (
                f"{provision.provider!r} returned credentials for {shown} only, "
                "which do not match this image: the kubelet does not use them"
            )
            yield _trap(ImageTrap.STRAY_AUTH_KEYS, provision.provider, text)


def _empty_answer(answer: Answer) -> Iterator[Reason]:
    for provision in answer.provisions:
        if provision.error is None and provision.outcome in _ANSWERED and not provision.auth:
            if provision.expires_ns is None:
                kept, how_long = "and this response is not cached", "for this image"
            elif provision.outcome is ProvisionOutcome.CACHED:
                kept, how_long = "from its cache", "until it expires"
            else:
                kept, how_long = "and this response is cached like any other", "until it expires"
            text = (
                f"{provision.provider!r} returned no credentials, {kept}: "
                f"no credentials of this provider are tried {how_long}"
            )
            yield _trap(ImageTrap.EMPTY_ANSWER, provision.provider, text)


def _general_first(answer: Answer) -> Iterator[Reason]:
    """Yield keys that are tried before a more specific key of another source."""
    for first, second in pairwise(answer.credentials):
        if first.source.kind != second.source.kind and len(_bare(first)) < len(_bare(second)):
            text = (
                f"key {first.key!r} of {first.source} is tried before the more specific {second.key!r} of "
                f"{second.source}: pull secrets come before the node's config, and that before plugins, for any keys"
            )
            yield _trap(ImageTrap.GENERAL_FIRST, first.key, text)


def _bare(credential: Credential) -> str:
    return credential.key.split("://")[-1]


def _default_registry(answer: Answer) -> Iterator[Reason]:
    for credential in answer.credentials:
        is_hub_key = _bare(credential).partition("/")[0] == LOGIN_HOST
        if is_hub_key and not answer.name.startswith(f"{HUB}/"):
            text = (
                f"{answer.name} has no '.' or ':' in its first part, so Docker Hub's credential under "
                f"{credential.key!r} is tried for it"
            )
            yield _trap(ImageTrap.DEFAULT_REGISTRY, credential.key, text)


def _same_key_twice(answer: Answer) -> Iterator[Reason]:
    for first, second in pairwise(answer.credentials):
        if first.key == second.key and first.source != second.source:
            text = f"{first.source} and {second.source} both have the key {first.key!r}: both are tried, in this order"
            yield _trap(ImageTrap.SAME_KEY, first.key, text)


def is_empty_login(credential: Credential) -> bool:
    """Return whether an entry of a docker config or a pull secret has neither a user name nor a password."""
    is_file = credential.source.kind != SourceKind.PROVIDER
    return is_file and not (credential.username or credential.password)


def empty_login_text(credential: Credential) -> str:
    """Return why an entry is empty for the kubelet, which reads less of a docker config than docker does."""
    return (
        f"key {credential.key!r} of {credential.source} has no user name and no password: docker keeps them in a "
        "credential helper (credsStore, credHelpers) or has an identity token, and the kubelet ignores both"
    )


def _empty_logins(answer: Answer) -> Iterator[Reason]:
    for credential in filter(is_empty_login, answer.credentials):
        yield _trap(ImageTrap.EMPTY_LOGIN, credential.key, empty_login_text(credential))


_TRAP_CHECKS: tuple[Callable[[Answer], Iterator[Reason]], ...] = (
    _port,
    _path_wildcard,
    _boundary,
    _hub_alias,
    _label_count,
    _letter_case,
    _query,
    _stray_keys,
    _empty_answer,
    _general_first,
    _default_registry,
    _same_key_twice,
    _empty_logins,
)
