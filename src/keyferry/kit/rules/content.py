"""Rules about the content of an image plugin's responses: keys, durations, user names and passwords."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.docker_hub import LOGIN_HOST, is_default_registry
from keyferry._core.secrets import MASK
from keyferry._core.values import Value
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.errors import MatchError
from keyferry.images.match import explain_match as judge_match
from keyferry.images.match import normalise_key
from keyferry.images.provider.cache import CACHE_KEY_TYPES
from keyferry.kit.lab.evidence import GOOD_EXPERIMENTS, NO_DURATION, Evidence, Rule, Unchecked, Violation
from keyferry.kit.lab.secrets import shown_key
from keyferry.kit.lab.tokens import expiry_of

__all__ = ["CONTENT_RULES", "serves", "why_unmatchable"]

_SECOND = 1_000_000_000
_WEEK = 7 * 86_400 * _SECOND
_UNSENDABLE = ("\r", "\n", "\0")

JudgeAnswer = Callable[[CredentialProviderResponse, str, Evidence], Iterator[tuple[str, str]]]


class Premise(Value):
    """A property that a response must have to be judged, and the reason why nothing is checked without it."""

    holds: Callable[[CredentialProviderResponse], bool]
    otherwise: str


_HAS_KEYS = Premise(holds=lambda response: bool(response.auth), otherwise="there are no credentials to check")
_HAS_DURATION = Premise(holds=lambda response: response.cache_duration_ns is not None, otherwise=NO_DURATION)
_HAS_CREDENTIAL = Premise(
    holds=lambda response: any(auth.username or auth.password for auth in (response.auth or {}).values()),
    otherwise="every entry is anonymous and has no credential to protect",
)
_HAS_EXPIRY = Premise(
    holds=lambda response: any(
        expiry_of(auth.password) is not None for auth in (response.auth or {}).values()
    ),
    otherwise="no password contains its expiry",
)


def each_answer(judge_answer: JudgeAnswer, *premises: Premise) -> Rule:
    """Return a rule that judges each valid response that meets all *premises*."""

    def judge(evidence: Evidence) -> Iterator[Violation]:
        names = evidence.valid_responses()
        for premise in premises:
            names = [name for name in names if premise.holds(evidence.response(name))]
            if not names:
                raise Unchecked(premise.otherwise)
        for name in names:
            image = evidence.experiments[name].image
            for found, expected in judge_answer(evidence.response(name), image, evidence):
                yield Violation(experiment=name, found=found, expected=expected)

    return Rule(needs=GOOD_EXPERIMENTS, judge=judge)


def _key_type(response: CredentialProviderResponse, _image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    if response.cache_key_type not in CACHE_KEY_TYPES:
        found = repr(response.cache_key_type[:40]) if response.cache_key_type else "no cacheKeyType"
        yield found, ", ".join(CACHE_KEY_TYPES)


def _no_duration(response: CredentialProviderResponse, _image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    if response.cache_duration_ns is None:
        yield "no cacheDuration", "a duration such as '10m'"


def _long_duration(
    response: CredentialProviderResponse, _image: str, _: Evidence
) -> Iterator[tuple[str, str]]:
    if (response.cache_duration_ns or 0) > _WEEK:
        yield f"{(response.cache_duration_ns or 0) // (86_400 * _SECOND)} days", "at most 7 days, 168h"


def _zero_duration(
    response: CredentialProviderResponse, _image: str, _: Evidence
) -> Iterator[tuple[str, str]]:
    if response.cache_duration_ns == 0:
        yield "a cacheDuration of 0s", "a few minutes"


def _outlives(
    response: CredentialProviderResponse, _image: str, evidence: Evidence
) -> Iterator[tuple[str, str]]:
    for key, auth in (response.auth or {}).items():
        end = expiry_of(auth.password)
        left = None if end is None else end - evidence.now_ns
        if left is not None and (response.cache_duration_ns or 0) > max(left, 0):
            found = f"{_seconds(response.cache_duration_ns)} s in the cache for a token under {_shown(key)}"
            yield f"{found} that expires in {_seconds(left)} s", f"less than {_seconds(max(left, 0))} s"


def _covers(response: CredentialProviderResponse, image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    keys = [key for key in response.auth or {} if _parses(key)]
    if any(serves(key, image) for key in keys):
        return
    reasons = [_reason(key, judge_match(normalise_key(key), image).why) for key in keys[:3]]
    found = "; ".join(reasons) or f"none of {len(response.auth or {})} keys can be parsed"
    yield found, f"a key that matches {image}, such as {image.partition('/')[0]!r}"


def _has_some(response: CredentialProviderResponse, image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    if not response.auth:
        yield "a response without credentials", f"credentials for {image}"


def _keys_parse(response: CredentialProviderResponse, _image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    for key in response.auth or {}:
        why = why_unmatchable(key)
        if why:
            yield _reason(key, why), "a registry's host, with port and path if required"


def why_unmatchable(key: str) -> str:
    """Return why a key of auth can match no image; empty if it can match one."""
    try:
        normalised = normalise_key(key)
    except MatchError as error:
        return error.message
    host, _, path = normalised.partition("/")
    if "://" in key and not key.startswith(("http://", "https://")):
        return "its scheme is unknown and is read as the host"
    if "*" in path:
        return "a '*' in a path is an ordinary character, which image names cannot contain"
    if "?" in key:
        return "the '?' and everything after it is ignored; it is not a wildcard"
    return "" if host else "it has no host"


def _too_wide(response: CredentialProviderResponse, _image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    for key, auth in (response.auth or {}).items():
        if not auth.username and not auth.password:
            continue  # an anonymous attempt, which has no credential to protect
        host = key.split("://")[-1].partition("/")[0].partition(":")[0]
        labels = host.split(".")
        literal = [label for label in labels if "*" not in label]
        if "*" in host and len(literal) < min(2, len(labels)):
            yield f"the key {_shown(key)}", "at least two labels of the host without a '*'"


def _incomplete(response: CredentialProviderResponse, _image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    for key, auth in (response.auth or {}).items():
        missing = [name for name in ("username", "password") if not getattr(auth, name)]
        if missing:
            yield f"an empty {' and '.join(missing)} under {_shown(key)}", "both, or no entry"


def _unsendable(response: CredentialProviderResponse, _image: str, _: Evidence) -> Iterator[tuple[str, str]]:
    for key, auth in (response.auth or {}).items():
        if ":" in auth.username:
            yield f"a ':' in the user name under {_shown(key)}", "a user name without ':'"
        for part in ("username", "password"):
            if any(char in getattr(auth, part) for char in _UNSENDABLE):
                yield f"a line end or NUL in the {part} under {_shown(key)}", "a string on one line"


def _parses(key: str) -> bool:
    try:
        return bool(normalise_key(key))
    except MatchError:
        return False


def serves(key: str, image: str) -> bool:
    """Return whether the kubelet tries the credential under *key* for *image*."""
    if not _parses(key):
        return False
    normalised = normalise_key(key)
    if judge_match(normalised, image).matched:
        return True
    return normalised == LOGIN_HOST and is_default_registry(image)


def _seconds(nanoseconds: int | None) -> int:
    return (nanoseconds or 0) // _SECOND


def _shown(key: str) -> str:
    shown = shown_key(key)
    return shown if shown == MASK else repr(shown)


def _reason(key: str, why: str) -> str:
    """Return the objection to a key; without the reason if the key must not be shown."""
    shown = _shown(key)
    return "a key that is not the name of a registry" if shown == MASK else f"{shown}: {why}"


CONTENT_RULES: dict[str, Rule] = {
    "KP106": each_answer(_key_type),
    "KP108": each_answer(_no_duration),
    "KP109": each_answer(_long_duration, _HAS_DURATION),
    "KP110": each_answer(_zero_duration, _HAS_DURATION),
    "KP111": each_answer(_outlives, _HAS_KEYS, _HAS_DURATION, _HAS_EXPIRY),
    "KP112": each_answer(_covers, _HAS_KEYS),
    "KP113": each_answer(_has_some),
    "KP114": each_answer(_keys_parse, _HAS_KEYS),
    "KP115": each_answer(_too_wide, _HAS_KEYS, _HAS_CREDENTIAL),
    "KP119": each_answer(_incomplete, _HAS_KEYS),
    "KP120": each_answer(_unsendable, _HAS_KEYS),
}
