"""Checks of an image plugin's responses to normal requests: whether the kubelet accepts them, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from keyferry._core.docker_hub import LOGIN_HOST, is_default_registry
from keyferry._core.secrets import MASK
from keyferry._core.severity import Severity
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.errors import Fault, MatchError, PluginProtocolError
from keyferry.images.match import explain_match, normalise_key
from keyferry.images.provider.cache import CACHE_KEY_TYPES
from keyferry.invoke.run import Ending
from keyferry.kit.checks.check import Code, check
from keyferry.kit.lab.evidence import NO_RESPONSE, Evidence, Observation, Unchecked, Violation
from keyferry.kit.lab.experiments import NORMAL
from keyferry.kit.lab.secrets import expiry_of, shown_key

_SECOND = 1_000_000_000
_WEEK = 7 * 86_400 * _SECOND
_UNSENDABLE = ("\r", "\n", "\0")
_NO_DURATION = "no response has a cacheDuration"

KP101 = Code(
    code="KP101",
    severity=Severity.ERROR,
    title="answers a request for its image with exit status 0",
    why="the kubelet treats any other status as a failure and pulls without these credentials",
    fix="find the reason of the failure in standard error, and exit with 0 after a response",
)


@check(KP101, needs=NORMAL)
def exits_with_0(evidence: Evidence) -> Iterator[Violation]:
    """Yield the normal requests that did not end with exit status 0."""
    for each in evidence.selected:
        if not each.has_succeeded:
            yield each.violation(each.describe(), evidence.good_answer())


KP102 = Code(
    code="KP102",
    severity=Severity.ERROR,
    title="prints one JSON object on standard output, and nothing else",
    why="the kubelet reads standard output as one JSON document and rejects it if it is empty, or also has a log line, "
    "a banner or a byte order mark",
    fix="write the response to standard output, with an empty auth if there are no credentials, and everything else to "
    "standard error",
)


@check(KP102, needs=NORMAL)
def prints_one_object(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses that are not one JSON object."""
    for each, problem in _rejected(evidence, KP102):
        found = problem.problem + surplus(each.outcome.stdout)
        yield each.violation(found, "one JSON object, with nothing before or after it")


def surplus(stdout: bytes) -> str:
    """Return how much of *stdout* is before and after its JSON object, as the end of a sentence; never its text."""
    start, end = stdout.find(b"{"), stdout.rstrip().rfind(b"}") + 1
    if not stdout.strip():
        return ": it is empty"
    if not 0 <= start < end:
        return f": none in {len(stdout)} bytes"
    sizes = {"before": len(stdout[:start]), "after": len(stdout[end:].strip())}
    found = [f"{size} bytes {place} it" for place, size in sizes.items() if size]
    return f": {' and '.join(found)}" if found else ""


KP103 = Code(
    code="KP103",
    severity=Severity.ERROR,
    title="answers in the apiVersion of the request",
    why="the kubelet compares apiVersion with the one in its config, as a string, and rejects any other",
    fix="copy apiVersion from the request into the response",
)


@check(KP103, needs=NORMAL)
def has_the_version_of_the_request(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses in another version."""
    for each, problem in _rejected(evidence, KP103):
        yield each.violation(problem.problem, "the apiVersion of the request")


KP104 = Code(
    code="KP104",
    severity=Severity.ERROR,
    title="sets the kind of its response to CredentialProviderResponse",
    why="the kubelet decodes by kind and rejects every other kind",
    fix="set kind to 'CredentialProviderResponse'",
)


@check(KP104, needs=NORMAL)
def has_its_kind(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses of another kind."""
    for each, problem in _rejected(evidence, KP104):
        yield each.violation(problem.problem, "'CredentialProviderResponse'")


KP105 = Code(
    code="KP105",
    severity=Severity.ERROR,
    title="uses only fields of the protocol, once each and of the right type",
    why="the kubelet decodes strictly: it rejects the whole response for an unknown, misspelled or repeated field",
    fix="print only kind, apiVersion, cacheKeyType, cacheDuration and auth with username and password",
)


@check(KP105, needs=NORMAL)
def has_only_known_fields(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses with fields that the kubelet rejects."""
    for each, problem in _rejected(evidence, KP105):
        yield each.violation(problem.problem, "the five fields of the protocol, each of its type")


KP106 = Code(
    code="KP106",
    severity=Severity.ERROR,
    title="sets cacheKeyType to Image, Registry or Global",
    why="the kubelet rejects a response with any other cacheKeyType",
    fix="set cacheKeyType to 'Registry' if the credentials are for a whole registry, else to 'Image'",
)


@check(KP106, needs=NORMAL)
def has_a_key_type(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses with an unknown cacheKeyType."""
    for each in evidence.valid_responses():
        key_type = each.response.cache_key_type
        if key_type not in CACHE_KEY_TYPES:
            found = repr(key_type[:40]) if key_type else "no cacheKeyType"
            yield each.violation(found, ", ".join(CACHE_KEY_TYPES))


KP107 = Code(
    code="KP107",
    severity=Severity.ERROR,
    title="sets cacheDuration to a Go duration that is not negative",
    why="the kubelet accepts strings such as '10m' or '1h30m'; it rejects the response for a number or '1d', and never "
    "caches it for a negative duration",
    fix="print for example '12h0m0s', and '0s' for a response that must not be cached",
)


@check(KP107, needs=NORMAL)
def has_a_valid_duration(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses whose cacheDuration cannot be parsed or is negative."""
    for each, problem in _rejected(evidence, KP107):
        yield each.violation(problem.problem, "a string such as '10m' or '0s'")
    durations = [(each, each.response.cache_duration_ns) for each in evidence.selected if each.is_good]
    if durations and all(duration is None for _, duration in durations):
        raise Unchecked(_NO_DURATION)
    for each, duration in durations:
        if (duration or 0) < 0:
            yield each.violation("a negative duration", "0s or more")


# The codes of the kubelet's objections, and the order of its checks: the first problem hides those after it.
_CODES = {
    Fault.SYNTAX: KP102,
    Fault.GROUP_VERSION: KP103,
    Fault.VERSION: KP103,
    Fault.KIND: KP104,
    Fault.DURATION: KP107,
}
_ORDER = ((KP102,), (KP103,), (KP104,), (KP105, KP107))


def classify(error: PluginProtocolError) -> Code:
    """Return the code of the kubelet's objection to a response."""
    return _CODES.get(error.fault, KP105)


def _rejected(evidence: Evidence, code: Code) -> Iterator[tuple[Observation, PluginProtocolError]]:
    """Yield the responses that the kubelet rejects by *code*, and its error.

    Raise Unchecked if another problem hides this part of every response.
    """
    answered = [each for each in evidence.selected if each.has_succeeded]
    if not answered:
        raise Unchecked(NO_RESPONSE)
    problems = [each.problem for each in answered]
    codes = [None if problem is None else classify(problem) for problem in problems]
    if not any(is_reached(code, found, _ORDER) for found in codes):
        raise Unchecked("an earlier problem hides this part of every response")
    for each, problem, found in zip(answered, problems, codes, strict=True):
        if problem is not None and found == code:
            yield each, problem


def is_reached(code: Code, found: Code | None, order: tuple[tuple[Code, ...], ...]) -> bool:
    """Return whether the checks got as far as *code*, if *found* is the code of the first problem.

    *order* lists the codes in the order of the checks; of codes in one group, only the found one is reached.
    """
    if found is None or code == found:
        return True
    places = {each.code: at for at, codes in enumerate(order) for each in codes}
    return places[code.code] < places[found.code]


def _having(
    observations: list[Observation], holds: Callable[[CredentialProviderResponse], bool], otherwise: str
) -> list[Observation]:
    """Return the observations whose response has a property; raise Unchecked with *otherwise* if there are none."""
    found = [each for each in observations if holds(each.response)]
    if not found:
        raise Unchecked(otherwise)
    return found


def _having_duration(observations: list[Observation]) -> list[Observation]:
    return _having(observations, lambda response: response.cache_duration_ns is not None, _NO_DURATION)


def _having_keys(observations: list[Observation]) -> list[Observation]:
    return _having(observations, lambda response: bool(response.auth), "there are no credentials to check")


KP108 = Code(
    code="KP108",
    severity=Severity.WARNING,
    title="returns a cacheDuration",
    why="without it the kubelet uses the defaultCacheDuration of its config, which is not related to the expiry of "
    "this credential",
    fix="set cacheDuration somewhat shorter than the lifetime of the credential",
)


@check(KP108, needs=NORMAL)
def has_a_duration(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses without a cacheDuration."""
    for each in evidence.valid_responses():
        if each.response.cache_duration_ns is None:
            yield each.violation("no cacheDuration", "a duration such as '10m'")


KP109 = Code(
    code="KP109",
    severity=Severity.WARNING,
    title="sets cacheDuration to seven days at most",
    why="a revoked credential stays in the kubelet's cache until then, and only a restart clears the cache",
    fix="set a shorter cacheDuration",
)


@check(KP109, needs=NORMAL)
def has_no_long_duration(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses that are cached for more than a week."""
    for each in _having_duration(evidence.valid_responses()):
        duration = each.response.cache_duration_ns or 0
        if duration > _WEEK:
            yield each.violation(f"{duration // (86_400 * _SECOND)} days", "at most 7 days, 168h")


KP110 = Code(
    code="KP110",
    severity=Severity.INFO,
    title="lets the kubelet cache its response",
    why="with a cacheDuration of 0s the kubelet runs the plugin for every pull",
    fix="set a cacheDuration of some minutes if the credential is valid for that long",
)


@check(KP110, needs=NORMAL)
def can_be_cached(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses that are not cached at all."""
    for each in _having_duration(evidence.valid_responses()):
        if each.response.cache_duration_ns == 0:
            yield each.violation("a cacheDuration of 0s", "a few minutes")


KP111 = Code(
    code="KP111",
    severity=Severity.ERROR,
    title="sets a cacheDuration that ends before its credential expires",
    why="the kubelet keeps using an expired credential from its cache, and every pull fails until the cache entry "
    "expires",
    fix="make cacheDuration some minutes shorter than the time left until the token's 'exp'",
)


@check(KP111, needs=NORMAL)
def is_not_cached_after_its_expiry(evidence: Evidence) -> Iterator[Violation]:
    """Yield the tokens that expire while they are in the cache."""
    observations = _having(
        _having_duration(_having_keys(evidence.valid_responses())),
        lambda response: any(expiry_of(auth.password) is not None for auth in (response.auth or {}).values()),
        "no password contains its expiry",
    )
    for each in observations:
        duration = each.response.cache_duration_ns or 0
        for key, auth in (each.response.auth or {}).items():
            end = expiry_of(auth.password)
            left = None if end is None else end - evidence.now_ns
            if left is not None and duration > max(left, 0):
                found = f"{duration // _SECOND} s in the cache for a token under {_shown(key)}"
                yield each.violation(
                    f"{found} that expires in {left // _SECOND} s", f"less than {max(left, 0) // _SECOND} s"
                )


KP112 = Code(
    code="KP112",
    severity=Severity.ERROR,
    title="returns its credentials under a key that matches the image",
    why="the kubelet uses the keys of auth that match the image: the number of host labels and the port must be equal",
    fix="use the image's registry, with its port, as the key",
)


@check(KP112, needs=NORMAL)
def has_a_key_for_the_image(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses whose keys do not match their image."""
    for each in _having_keys(evidence.valid_responses()):
        image, auth = each.experiment.image, each.response.auth or {}
        keys = [key for key in auth if _parses(key)]
        if any(serves(key, image) for key in keys):
            continue
        reasons = [_reason(key, explain_match(normalise_key(key), image).why) for key in keys[:3]]
        found = "; ".join(reasons) or f"none of {len(auth)} keys can be parsed"
        yield each.violation(found, f"a key that matches {image}, such as {image.partition('/')[0]!r}")


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
    if explain_match(normalised, image).matched:
        return True
    return normalised == LOGIN_HOST and is_default_registry(image)


def _shown(key: str) -> str:
    shown = shown_key(key)
    return shown if shown == MASK else repr(shown)


def _reason(key: str, why: str) -> str:
    """Return the objection to a key; without the reason if the key must not be shown."""
    shown = _shown(key)
    return "a key that is not the name of a registry" if shown == MASK else f"{shown}: {why}"


KP113 = Code(
    code="KP113",
    severity=Severity.ERROR,
    title="has credentials for its image",
    why="an empty auth is cached like any other, and the kubelet pulls anonymously until it expires",
    fix="return credentials, or fail with a message that gives the reason",
)


@check(KP113, needs=NORMAL)
def has_credentials(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses with an empty auth."""
    for each in evidence.valid_responses():
        if not each.response.auth:
            yield each.violation("a response without credentials", f"credentials for {each.experiment.image}")


KP114 = Code(
    code="KP114",
    severity=Severity.WARNING,
    title="uses only keys that can match an image",
    why="the kubelet ignores a key that it cannot parse, and never uses a key that matches no image",
    fix="use host, port and path without a scheme, a '?' or a wildcard in the path",
)


@check(KP114, needs=NORMAL)
def has_keys_that_can_match(evidence: Evidence) -> Iterator[Violation]:
    """Yield the keys that match no image."""
    for each in _having_keys(evidence.valid_responses()):
        for key in each.response.auth or {}:
            why = why_unmatchable(key)
            if why:
                yield each.violation(_reason(key, why), "a registry's host, with port and path if required")


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


KP115 = Code(
    code="KP115",
    severity=Severity.WARNING,
    title="returns keys that match only the credentials' own registries",
    why="the kubelet sends a credential to every registry that its key matches, and '*.io' matches those of others",
    fix="use the registry's own name as the key",
)


@check(KP115, needs=NORMAL)
def has_no_wide_keys(evidence: Evidence) -> Iterator[Violation]:
    """Yield the keys that match the registries of others."""
    observations = _having(
        _having_keys(evidence.valid_responses()),
        lambda response: any(auth.username or auth.password for auth in (response.auth or {}).values()),
        "every entry is anonymous and has no credential to protect",
    )
    for each in observations:
        for key, auth in (each.response.auth or {}).items():
            if not auth.username and not auth.password:
                continue  # an anonymous attempt, which has no credential to protect
            host = key.split("://")[-1].partition("/")[0].partition(":")[0]
            labels = host.split(".")
            literal = [label for label in labels if "*" not in label]
            if "*" in host and len(literal) < min(2, len(labels)):
                yield each.violation(
                    f"the key {_shown(key)}", "at least two labels of the host without a '*'"
                )


KP119 = Code(
    code="KP119",
    severity=Severity.WARNING,
    title="returns a user name and a password",
    why="if one of them is empty, most registries refuse the credential, and a pull that could be anonymous fails",
    fix="omit registries without a credential from auth",
)


@check(KP119, needs=NORMAL)
def has_complete_logins(evidence: Evidence) -> Iterator[Violation]:
    """Yield the entries without a user name or password."""
    for each in _having_keys(evidence.valid_responses()):
        for key, auth in (each.response.auth or {}).items():
            missing = [name for name in ("username", "password") if not getattr(auth, name)]
            if missing:
                yield each.violation(
                    f"an empty {' and '.join(missing)} under {_shown(key)}", "both, or no entry"
                )


KP120 = Code(
    code="KP120",
    severity=Severity.ERROR,
    title="returns user names and passwords that can be sent",
    why="basic authentication ends a user name at its first ':', and a line end in a password, often from reading a "
    "file, makes the password wrong",
    fix="strip white space from credentials that are read from a file or a program",
)


@check(KP120, needs=NORMAL)
def has_logins_that_can_be_sent(evidence: Evidence) -> Iterator[Violation]:
    """Yield the user names and passwords with characters that basic authentication cannot send."""
    for each in _having_keys(evidence.valid_responses()):
        for key, auth in (each.response.auth or {}).items():
            if ":" in auth.username:
                yield each.violation(f"a ':' in the user name under {_shown(key)}", "a user name without ':'")
            for part in ("username", "password"):
                if any(char in getattr(auth, part) for char in _UNSENDABLE):
                    yield each.violation(
                        f"a line end or NUL in the {part} under {_shown(key)}", "a string on one line"
                    )


KP150 = Code(
    code="KP150",
    severity=Severity.INFO,
    title="ends its response with a line end",
    why="the kubelet does not require it, but it helps people who run the plugin by hand",
    fix="print a newline after the JSON document",
)


@check(KP150, needs=NORMAL)
def ends_with_a_line_end(evidence: Evidence) -> Iterator[Violation]:
    """Yield the responses without a line end after them."""
    for each in evidence.valid_responses():
        if not each.outcome.stdout.endswith(b"\n"):
            yield each.violation("no line end after the response", "a newline at the end")


KP151 = Code(
    code="KP151",
    severity=Severity.ERROR,
    title="prints a response of at most 4 MiB",
    why="the kubelet keeps all of standard output in memory, without a limit",
    fix="print only the credentials of this image's registry",
)


@check(KP151, needs=NORMAL)
def prints_no_flood(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs that wrote more than Kubernetes should keep."""
    for each in evidence.selected:
        if each.outcome.ending is Ending.STDOUT_LIMIT:
            yield each.violation("more than 4 MiB on standard output", "a few kilobytes")
