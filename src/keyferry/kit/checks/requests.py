"""Checks of an image plugin's responses to other requests: other images, tokens, other versions, malformed input."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.severity import Severity
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.errors import Fault
from keyferry.images.reference import registry_of
from keyferry.kit.checks.check import Code, check
from keyferry.kit.checks.responses import serves
from keyferry.kit.lab.evidence import A_FAILURE, Evidence, Observation, Unchecked, Violation
from keyferry.kit.lab.experiments import Family
from keyferry.kit.lab.requests import CANARY, FOREIGN

_NEW_LOGINS = "the same request gets other logins each time, so that they cannot be compared"
_NEW_PASSWORDS = "the same request gets other passwords each time, so that they cannot be compared"

KP116 = Code(
    code="KP116",
    severity=Severity.ERROR,
    title="returns the same Global response for every image",
    why="the kubelet runs the plugin once, and uses a Global response for all images until the cache entry expires",
    fix="use 'Registry' or 'Image' as cacheKeyType",
)


@check(KP116, needs=(Family.NORMAL, "again", "sibling", "foreign"))
def global_response_is_the_same(evidence: Evidence) -> Iterator[Violation]:
    """Yield the images with another response than the first one's, which is for all images."""
    return _differing(evidence, _others(evidence, "Global", of_registry=False))


KP117 = Code(
    code="KP117",
    severity=Severity.ERROR,
    title="returns the same Registry response for every image of the registry",
    why="the kubelet uses a Registry response for all images of that registry until the cache entry expires",
    fix="use 'Image' as cacheKeyType",
)


@check(KP117, needs=(Family.NORMAL, "again", "sibling"))
def registry_response_is_the_same(evidence: Evidence) -> Iterator[Violation]:
    """Yield the images with another response than the first one's, which is for their registry."""
    return _differing(evidence, _others(evidence, "Registry", of_registry=True))


KP118 = Code(
    code="KP118",
    severity=Severity.INFO,
    title="sets cacheKeyType to Image only if the response depends on the image",
    why="the kubelet runs the plugin once for each image, although one response is valid for the whole registry",
    fix="use 'Registry' as cacheKeyType",
)


@check(KP118, needs=(Family.NORMAL, "again", "sibling"))
def image_response_differs(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if a response that is for one image is the same for all of its registry."""
    others = _others(evidence, "Image", of_registry=True)
    if not _is_repeated(evidence, with_passwords=True):
        raise Unchecked(_NEW_PASSWORDS)
    if not any(_differing(evidence, others)):
        found = f"the same credentials for {others[0].experiment.image}"
        yield others[0].violation(found, "credentials that depend on the image")


def _others(evidence: Evidence, key_type: str, *, of_registry: bool) -> list[Observation]:
    """Return the observations whose responses must be equal to the first one's."""
    good = evidence["good"]
    if good.response.cache_key_type != key_type:
        raise Unchecked(f"its cacheKeyType is not {key_type}")
    registry = registry_of(good.experiment.image)
    others = [
        each
        for each in evidence.selected
        if each.name not in ("good", "again")
        and each.is_good
        and (not of_registry or registry_of(each.experiment.image) == registry)
    ]
    if not others:
        raise Unchecked("the plugin has a response for one image only; add another with --image")
    return others


def _differing(evidence: Evidence, others: list[Observation]) -> Iterator[Violation]:
    is_fixed = _is_repeated(evidence, with_passwords=True)
    if not is_fixed and not _is_repeated(evidence, with_passwords=False):
        raise Unchecked(_NEW_LOGINS)
    good = evidence["good"]
    first = _logins(good.response, with_passwords=is_fixed)
    for each in others:
        if _logins(each.response, with_passwords=is_fixed) != first:
            found = f"other credentials for {each.experiment.image} than for {good.experiment.image}"
            yield each.violation(found, "the same for both")
    if not is_fixed:
        raise Unchecked(_NEW_PASSWORDS)


def _is_repeated(evidence: Evidence, *, with_passwords: bool) -> bool:
    """Return whether the same request, made before and after all others, gets the same logins.

    If so, the time of a request makes no difference to what is compared in between. If not, as where a plugin gets a
    new token for each response or each second, responses cannot be compared.
    """
    again = evidence.observations.get("again")
    if again is None or not again.is_good:
        return False
    first, second = evidence["good"].response, again.response
    return _logins(first, with_passwords=with_passwords) == _logins(second, with_passwords=with_passwords)


def _logins(response: CredentialProviderResponse, *, with_passwords: bool) -> dict[str, tuple[str, str]]:
    return {
        key: (auth.username, auth.password if with_passwords else "")
        for key, auth in (response.auth or {}).items()
    }


KP121 = Code(
    code="KP121",
    severity=Severity.ERROR,
    title="does not return the service account token as a password",
    why="the kubelet rejects the token that it sent unless tokenAttributes.cacheType is 'Token', because the cache "
    "entry would expire after the token",
    fix="exchange the token for a credential, or configure cacheType: Token",
)


@check(KP121, needs=("account",))
def returns_no_token(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the service account's token is returned where the kubelet rejects it."""
    if evidence.plugin.cache_type == "Token":
        raise Unchecked("tokenAttributes.cacheType is 'Token', see KP122")
    return _returned_token(evidence)


KP122 = Code(
    code="KP122",
    severity=Severity.WARNING,
    title="does not return the service account token, although cacheType: Token allows it",
    why="the registry gets the pod's own token, and its operator can use the token elsewhere",
    fix="exchange the token for a credential of the registry",
)


@check(KP122, needs=("account",))
def returns_no_token_although_it_may(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the service account's token is returned where the kubelet accepts it."""
    if evidence.plugin.cache_type != "Token":
        raise Unchecked("tokenAttributes.cacheType is not 'Token'")
    return _returned_token(evidence)


def _returned_token(evidence: Evidence) -> Iterator[Violation]:
    account, token = evidence["account"], evidence.plugin.token or CANARY
    credentials = account.response.auth
    if not credentials:
        raise Unchecked("the response to a request with a token has no credentials")
    if any(auth.password == token for auth in credentials.values()):
        yield account.violation("the service account's token as a password", "a credential of the registry")


KP123 = Code(
    code="KP123",
    severity=Severity.ERROR,
    title="answers a request that has a service account's token and annotations",
    why="with tokenAttributes in its config the kubelet sends both with every request",
    fix="accept serviceAccountToken and serviceAccountAnnotations, including unknown annotations",
)


@check(KP123, needs=("account",))
def accepts_a_token(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if a real token and annotations make the plugin fail."""
    evidence.require_good()
    account = evidence["account"]
    if account.is_good:
        return
    if not evidence.plugin.token:
        raise Unchecked(
            "the plugin refuses an invented token; give a real one with --service-account-token-file"
        )
    yield account.violation(account.describe(), "a valid response")


KP124 = Code(
    code="KP124",
    severity=Severity.ERROR,
    title="answers a repeated request as well as the first",
    why="the kubelet runs the plugin again whenever its cache entry has expired, and may run it several times at once",
    fix="keep no state that makes a second run fail",
)


@check(KP124, needs=("again",))
def answers_again(evidence: Evidence) -> Iterator[Violation]:
    """Yield what is different when the first request is repeated."""
    evidence.require_good()
    again = evidence["again"]
    if not again.is_good:
        yield again.violation(again.describe(), "a response as valid as the first")
        return
    first, second = evidence["good"].response, again.response
    if first.cache_key_type != second.cache_key_type:
        yield again.violation("another cacheKeyType than the first time", "the same")
    if _logins(first, with_passwords=False) != _logins(second, with_passwords=False):
        yield again.violation("other keys or user names than the first time", "the same")


KP125 = Code(
    code="KP125",
    severity=Severity.WARNING,
    title="answers a request with an unknown field",
    why="fields have been added to v1 before, and a newer kubelet may send another one",
    fix="ignore unknown fields of the request",
)


@check(KP125, needs=("unknown field",))
def ignores_unknown_fields(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if an unknown field makes the plugin fail."""
    evidence.require_good()
    for each in evidence.selected:
        if not each.is_good:
            yield each.violation(each.describe(), "a valid response, as without the field")


KP126 = Code(
    code="KP126",
    severity=Severity.ERROR,
    title="refuses a request of another kind",
    why="the plugin does not understand such a request, so its response has no meaning",
    fix="exit with 1 and a message unless kind is 'CredentialProviderRequest'",
)

KP127 = Code(
    code="KP127",
    severity=Severity.WARNING,
    title="refuses a request in an unknown version",
    why="the kubelet rejects a response in another apiVersion than the request's, with a less helpful message",
    fix="exit with 1 and a message that lists the supported versions",
)

KP128 = Code(
    code="KP128",
    severity=Severity.ERROR,
    title="refuses a request without an image",
    why="without an image there is no registry, and the credentials may be sent to any registry",
    fix="exit with 1 and a message if image is empty",
)

KP140 = Code(
    code="KP140",
    severity=Severity.ERROR,
    title="refuses an empty request within the time limit",
    why="a plugin that waits for more input, or answers an empty request, hides the mistake",
    fix="read standard input to its end, and exit with 1 and a message if it is empty",
)


@check(KP126, needs=("wrong kind",))
@check(KP127, needs=("wrong group", "wrong version"))
@check(KP128, needs=("empty image",))
@check(KP140, needs=("empty input",))
def refuses(evidence: Evidence) -> Iterator[Violation]:
    """Yield the requests that are not refused, by a plugin that answers normal requests."""
    taken = [each for each in evidence.selected if not each.was_refused]
    if not taken:
        evidence.require_good()
    for each in taken:
        yield each.violation("exit status 0" if each.has_succeeded else each.describe(), A_FAILURE)


KP129 = Code(
    code="KP129",
    severity=Severity.WARNING,
    title="returns no credentials for registries of others",
    why="the matchImages of a config may match more registries than intended, which then get the plugin's credentials",
    fix="check the image's host, and return an empty auth or fail if the registry is not yours",
)


@check(KP129, needs=("foreign",))
def has_nothing_for_others(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if there are credentials for a registry that cannot be the plugin's."""
    foreign = evidence["foreign"]
    if foreign.was_refused:
        evidence.require_good()
    elif any(serves(key, FOREIGN) for key in foreign.response.auth or {}):
        yield foreign.violation(f"credentials for {FOREIGN}", "none, or a failure")


KP130 = Code(
    code="KP130",
    severity=Severity.WARNING,
    title="answers another version in that version, or refuses it",
    why="the kubelet rejects a response whose version is not the one in its config, as this plugin returns",
    fix="copy apiVersion from the request, or refuse the versions that you do not support",
)


@check(KP130, needs=(Family.VERSION,))
def answers_versions_or_refuses(evidence: Evidence) -> Iterator[Violation]:
    """Yield the requests with neither a valid response in the requested version nor a refusal."""
    for each in _optional_versions(evidence):
        if not each.is_good and not each.was_refused:
            yield each.violation(each.describe(), f"a response in {each.api_version!r}, or a failure")


KP131 = Code(
    code="KP131",
    severity=Severity.INFO,
    title="supports the older versions of the protocol",
    why="v1beta1 and v1alpha1 are only required for kubelets before 1.26",
    fix="nothing, unless you have such nodes",
)


@check(KP131, needs=(Family.VERSION,))
def answers_versions(evidence: Evidence) -> Iterator[Violation]:
    """Yield the requests in other versions that are refused, by a plugin that answers normal requests."""
    handled = [each for each in _optional_versions(evidence) if each.is_good or each.was_refused]
    if not handled:
        raise Unchecked("the plugin neither answers nor refuses other versions")
    for each in handled:
        if each.was_refused:
            yield each.violation(f"it refuses {each.api_version}", "a response in that version")


def _optional_versions(evidence: Evidence) -> list[Observation]:
    """Return the requests in versions that are not required with ``--api-version``."""
    evidence.require_good()
    found = [each for each in evidence.selected if each.api_version not in evidence.plugin.api_versions]
    if not found:
        raise Unchecked("every version is required with --api-version")
    return found


KP132 = Code(
    code="KP132",
    severity=Severity.ERROR,
    title="answers in every version that is given on the command line",
    why="a kubelet with that version in its config gets no credentials",
    fix="answer in the version of the request: all versions have the same fields",
)


@check(KP132, needs=(Family.VERSION,))
def answers_required_versions(evidence: Evidence) -> Iterator[Violation]:
    """Yield the requests in required versions without a valid response."""
    required = [each for each in evidence.selected if each.api_version in evidence.plugin.api_versions]
    if not required:
        raise Unchecked("no second --api-version is given")
    for each in required:
        if not each.is_good:
            yield each.violation(each.describe(), f"a response in {each.api_version}")


KP141 = Code(
    code="KP141",
    severity=Severity.ERROR,
    title="handles input that is not a request",
    why="a crash or a malformed response does not tell the user what is wrong with the input",
    fix="exit with 1 and a message for input that cannot be parsed",
)

KP142 = Code(
    code="KP142",
    severity=Severity.ERROR,
    title="handles a truncated request",
    why="a crash or a malformed response does not tell the user what is wrong with the input",
    fix="exit with 1 and a message for input that cannot be parsed",
)

KP143 = Code(
    code="KP143",
    severity=Severity.ERROR,
    title="handles a byte order mark and UTF-16",
    why="a crash or a malformed response does not tell the user what is wrong with the input",
    fix="exit with 1 and a message for input that is not UTF-8",
)

KP144 = Code(
    code="KP144",
    severity=Severity.ERROR,
    title="handles two requests in one input, and a repeated field",
    why="a crash or a malformed response does not tell the user what is wrong with the input",
    fix="read exactly one JSON document",
)

KP145 = Code(
    code="KP145",
    severity=Severity.ERROR,
    title="handles deep nesting",
    why="a parser that recurses without a limit is killed by a signal, without a message",
    fix="limit the depth, or use a parser that does",
)

KP146 = Code(
    code="KP146",
    severity=Severity.ERROR,
    title="handles a request of 12 MB",
    why="a plugin that hangs or crashes on a long request returns neither credentials nor a reason",
    fix="read all of standard input before responding, or refuse input that is too long",
)

KP147 = Code(
    code="KP147",
    severity=Severity.ERROR,
    title="handles image names with special characters",
    why="a name that is inserted into JSON, a path or a pattern without quoting makes the response wrong",
    fix="write the response with a JSON encoder, and pass names as arguments, never inside the text of a command",
)


@check(KP141, needs=("text", "binary", "array", "wrong types"))
@check(KP142, needs=("truncated",))
@check(KP143, needs=("byte order mark", "UTF-16"))
@check(KP144, needs=("two documents", "repeated field"))
@check(KP145, needs=("deep nesting",))
@check(KP146, needs=("huge input",))
@check(KP147, needs=(Family.IMAGE_NAME,))
def handles_input(evidence: Evidence) -> Iterator[Violation]:
    """Yield the runs that ended neither with a failure of their own nor with a valid response, in time."""
    broken = [each for each in evidence.selected if not _is_handled(each)]
    if not broken:
        evidence.require_good()
    for each in broken:
        yield each.violation(each.describe(), f"{A_FAILURE}, or a valid response")


def _is_handled(observation: Observation) -> bool:
    if not observation.has_succeeded:
        return observation.has_failed
    problem = observation.problem
    # A response in any version is valid, because the version of the request cannot be read.
    is_of_other_version = problem is not None and problem.fault is Fault.VERSION
    return problem is None or (is_of_other_version and bool(observation.outcome.stdout.strip()))


KP148 = Code(
    code="KP148",
    severity=Severity.ERROR,
    title="executes no command in an image name",
    why="every user who can create a pod with an image name could run commands as root on the node",
    fix="never put the image into the text of a shell command, an eval or a template",
)


@check(KP148, needs=("image: shell words", "image: shell quotes"))
def executes_no_image_name(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if a command in an image name was executed."""
    if evidence.canary_made and evidence.selected:
        found = "a file that a command in the image's name has created"
        yield evidence.selected[0].violation(found, "no such file")
    else:
        evidence.require_good()
