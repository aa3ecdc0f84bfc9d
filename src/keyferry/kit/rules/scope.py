"""Rules that compare an image plugin's responses: to other images, versions, tokens, and the same request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.images.reference import registry_of
from keyferry.invoke.run import Ending
from keyferry.kit.lab.evidence import A_FAILURE, Evidence, Rule, Unchecked, Violation, succeeded
from keyferry.kit.lab.experiments import Family
from keyferry.kit.lab.requests import CANARY, FOREIGN
from keyferry.kit.rules.content import serves

__all__ = ["SCOPE_RULES", "answered", "answered_or_refused", "refuses", "was_refused"]

Logins = dict[str, tuple[str, str]]
_NEW_LOGINS = "the same request gets other logins each time, so that they cannot be compared"
_NEW_PASSWORDS = "the same request gets other passwords each time, so that they cannot be compared"


def _logins(response: CredentialProviderResponse, *, with_passwords: bool) -> Logins:
    return {
        key: (auth.username, auth.password if with_passwords else "")
        for key, auth in (response.auth or {}).items()
    }


def _is_repeated(evidence: Evidence, *, with_passwords: bool) -> bool:
    """Return whether the same request, made before and after all others, gets the same logins.

    If so, the time of a request makes no difference to what is compared in between. If not, as where a plugin gets a
    new token for each response or each second, responses cannot be compared.
    """
    if "again" not in evidence.runs or not evidence.is_good("again"):
        return False
    names = ("good", "again")
    first, second = (_logins(evidence.response(name), with_passwords=with_passwords) for name in names)
    return first == second


def _others(evidence: Evidence, key_type: str, *, of_registry: bool) -> list[str]:
    """Return the experiments whose responses must be equal to the first one's."""
    if evidence.response("good").cache_key_type != key_type:
        raise Unchecked(f"its cacheKeyType is not {key_type}")
    registry = registry_of(evidence.experiments["good"].image)
    names = [
        name
        for name in evidence.names(Family.NORMAL, "sibling", "foreign")
        if name != "good"
        and evidence.is_good(name)
        and (not of_registry or registry_of(evidence.experiments[name].image) == registry)
    ]
    if not names:
        raise Unchecked("the plugin has a response for one image only; add another with --image")
    return names


def _differing(evidence: Evidence, key_type: str, *, of_registry: bool) -> Iterator[Violation]:
    names = _others(evidence, key_type, of_registry=of_registry)
    fixed = _is_repeated(evidence, with_passwords=True)
    if not fixed and not _is_repeated(evidence, with_passwords=False):
        raise Unchecked(_NEW_LOGINS)
    first = _logins(evidence.response("good"), with_passwords=fixed)
    for name in names:
        other = _logins(evidence.response(name), with_passwords=fixed)
        if other != first:
            image, known = evidence.experiments[name].image, evidence.experiments["good"].image
            yield Violation(
                experiment=name,
                found=f"other credentials for {image} than for {known}",
                expected="the same for both",
            )
    if not fixed:
        raise Unchecked(_NEW_PASSWORDS)


def _global(evidence: Evidence) -> Iterator[Violation]:
    yield from _differing(evidence, "Global", of_registry=False)


def _registry(evidence: Evidence) -> Iterator[Violation]:
    yield from _differing(evidence, "Registry", of_registry=True)


def _needless_image(evidence: Evidence) -> Iterator[Violation]:
    names = _others(evidence, "Image", of_registry=True)
    if not _is_repeated(evidence, with_passwords=True):
        raise Unchecked(_NEW_PASSWORDS)
    if not any(_differing(evidence, "Image", of_registry=True)):
        image = evidence.experiments[names[0]].image
        yield Violation(
            experiment=names[0],
            found=f"the same credentials for {image}",
            expected="credentials that depend on the image",
        )


def _echoes(evidence: Evidence) -> bool:
    token = evidence.plugin.token or CANARY
    credentials = evidence.response("account").auth
    if not credentials:
        raise Unchecked("the response to a request with a token has no credentials")
    return any(auth.password == token for auth in credentials.values())


def _echo(evidence: Evidence) -> Iterator[Violation]:
    if evidence.plugin.cache_type == "Token":
        raise Unchecked("tokenAttributes.cacheType is 'Token', see KP122")
    if _echoes(evidence):
        yield Violation(
            experiment="account",
            found="the service account's token as a password",
            expected="a credential of the registry",
        )


def _allowed_echo(evidence: Evidence) -> Iterator[Violation]:
    if evidence.plugin.cache_type != "Token":
        raise Unchecked("tokenAttributes.cacheType is not 'Token'")
    if _echoes(evidence):
        yield Violation(
            experiment="account",
            found="the service account's token as a password",
            expected="a credential of the registry",
        )


def _account(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    if evidence.is_good("account"):
        return
    if not evidence.plugin.token:
        raise Unchecked(
            "the plugin refuses an invented token; give a real one with --service-account-token-file"
        )
    yield Violation(experiment="account", found=evidence.describe("account"), expected="a valid response")


def _again(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    if not evidence.is_good("again"):
        yield Violation(
            experiment="again", found=evidence.describe("again"), expected="a response as valid as the first"
        )
        return
    first, second = evidence.response("good"), evidence.response("again")
    if first.cache_key_type != second.cache_key_type:
        yield Violation(
            experiment="again", found="another cacheKeyType than the first time", expected="the same"
        )
    if _logins(first, with_passwords=False) != _logins(second, with_passwords=False):
        yield Violation(
            experiment="again", found="other keys or user names than the first time", expected="the same"
        )


def _unknown_field(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    if not evidence.is_good("unknown field"):
        yield Violation(
            experiment="unknown field",
            found=evidence.describe("unknown field"),
            expected="a valid response, as without the field",
        )


def was_refused(evidence: Evidence, name: str) -> bool:
    """Return whether a run exited with a status other than 0."""
    outcome = evidence.outcome(name)
    return outcome.ending is Ending.EXITED and outcome.status != 0


def refuses(*names: str) -> Rule:
    """Return the rule that experiments must be refused, by a plugin that answers normal requests."""

    def judge(evidence: Evidence) -> Iterator[Violation]:
        taken = [name for name in evidence.names(*names) if not was_refused(evidence, name)]
        if not taken:
            evidence.require_good()
        for name in taken:
            ended = "exit status 0" if succeeded(evidence.outcome(name)) else evidence.describe(name)
            yield Violation(experiment=name, found=ended, expected=A_FAILURE)

    return Rule(needs=names, judge=judge)


def _foreign(evidence: Evidence) -> Iterator[Violation]:
    if was_refused(evidence, "foreign"):
        evidence.require_good()
        return
    for key in evidence.response("foreign").auth or {}:
        if serves(key, FOREIGN):
            yield Violation(
                experiment="foreign", found=f"credentials for {FOREIGN}", expected="none, or a failure"
            )
            return


def _versions(evidence: Evidence, *, required: bool) -> Iterator[str]:
    for name in evidence.names(Family.VERSION):
        if (evidence.version(name) in evidence.plugin.api_versions) is required:
            yield name


def _wrong_version(evidence: Evidence) -> Iterator[Violation]:
    yield from answered_or_refused(evidence, _versions(evidence, required=False))


def _older_versions(evidence: Evidence) -> Iterator[Violation]:
    yield from answered(evidence, _versions(evidence, required=False))


def answered_or_refused(evidence: Evidence, names: Iterable[str]) -> Iterator[Violation]:
    """Yield the experiments with neither a valid response in the requested version nor a refusal."""
    evidence.require_good()
    found = list(names)
    if not found:
        raise Unchecked("every version is required with --api-version")
    for name in found:
        if not evidence.is_good(name) and not was_refused(evidence, name):
            expected = f"a response in {evidence.version(name)!r}, or a failure"
            yield Violation(experiment=name, found=evidence.describe(name), expected=expected)


def answered(evidence: Evidence, names: Iterable[str]) -> Iterator[Violation]:
    """Yield the experiments that were refused, by a plugin that answers normal requests."""
    evidence.require_good()
    found = list(names)
    if not found:
        raise Unchecked("every version is required with --api-version")
    told = [name for name in found if evidence.is_good(name) or was_refused(evidence, name)]
    if not told:
        raise Unchecked("the plugin neither answers nor refuses other versions")
    for name in told:
        if was_refused(evidence, name):
            yield Violation(
                experiment=name,
                found=f"it refuses {evidence.version(name)}",
                expected="a response in that version",
            )


def _required_versions(evidence: Evidence) -> Iterator[Violation]:
    names = list(_versions(evidence, required=True))
    if not names:
        raise Unchecked("no second --api-version is given")
    for name in names:
        if not evidence.is_good(name):
            yield Violation(
                experiment=name,
                found=evidence.describe(name),
                expected=f"a response in {evidence.version(name)}",
            )


SCOPE_RULES: dict[str, Rule] = {
    "KP116": Rule(needs=(Family.NORMAL, "again", "sibling", "foreign"), judge=_global),
    "KP117": Rule(needs=(Family.NORMAL, "again", "sibling"), judge=_registry),
    "KP118": Rule(needs=(Family.NORMAL, "again", "sibling"), judge=_needless_image),
    "KP121": Rule(needs=("account",), judge=_echo),
    "KP122": Rule(needs=("account",), judge=_allowed_echo),
    "KP123": Rule(needs=("account",), judge=_account),
    "KP124": Rule(needs=("again",), judge=_again),
    "KP125": Rule(needs=("unknown field",), judge=_unknown_field),
    "KP126": refuses("wrong kind"),
    "KP127": refuses("wrong group", "wrong version"),
    "KP128": refuses("empty image"),
    "KP129": Rule(needs=("foreign",), judge=_foreign),
    "KP130": Rule(needs=(Family.VERSION,), judge=_wrong_version),
    "KP131": Rule(needs=(Family.VERSION,), judge=_older_versions),
    "KP132": Rule(needs=(Family.VERSION,), judge=_required_versions),
}
