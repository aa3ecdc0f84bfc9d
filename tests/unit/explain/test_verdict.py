"""The verdict, in one line."""

from __future__ import annotations

import json

import pytest
from keyferry.explain.verdict import Subject, find_verdict

from keyferry._core.values import replace
from keyferry.errors import Kind, PluginExitError, RegistryError
from keyferry.explain.explanation import Explanation
from keyferry.explain.registry import PullVerdict, RegistryCheck
from keyferry.images.answer import Answer
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.pulls.trial import Attempt
from support.function_plugins import answering, failing, provider, providers

LOGIN = ("bob", "x")


def lookup(auth: dict[str, tuple[str, str]], image: str = "reg.io/a/b") -> Answer:
    return providers(provider("p", ["reg.io"], answering(auth))).lookup(image)


def verdict_of(answer: Answer, check: RegistryCheck | None = None) -> tuple[str, str]:
    found = find_verdict(Explanation(answer, check))
    assert found.about is (Subject.CREDENTIAL if check is None else Subject.PULL)
    return str(found.outcome), found.text


def test_without_a_check_it_is_about_the_credential() -> None:
    assert verdict_of(lookup({"reg.io": LOGIN})) == (
        "yes",
        "a credential is found: user 'bob' of provider p",
    )
    both = lookup({"reg.io": LOGIN, "reg.io/a": ("", "x")})
    assert verdict_of(both) == ("yes", "2 credentials are found; the first is no user name of provider p")
    assert verdict_of(lookup({})) == (
        "no",
        "no credential is found: provider 'p' matches the image, but returned none for it",
    )
    plugin = failing(lambda: PluginExitError("p", 3))
    failed = providers(provider("p", ["reg.io"], plugin)).lookup("reg.io/a")
    assert verdict_of(failed) == ("no", "no credential is found: provider 'p' failed")


def test_an_empty_login_is_no_credential_to_rely_on() -> None:
    """The kubelet tries it all the same; beside another login, it is only one of several."""
    content = json.dumps({"auths": {"reg.io": {}, "reg.io/a": {}}, "credsStore": "desktop"}).encode()
    secret = PullSecret("shop", "s", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": content})
    assert verdict_of(providers().lookup("reg.io/b", pull_secrets=(secret,))) == (
        "no",
        "a login is found, but it is empty: pull secret shop/s has no user name and no password under 'reg.io'",
    )
    both = providers().lookup("reg.io/a", pull_secrets=(secret,))
    outcome, text = verdict_of(replace(both, untold=(MissingInput(LookupInput.NODE),)))
    assert (outcome, text.rpartition("; ")[2]) == ("unknown", "the kubelet may have others too")
    assert verdict_of(both) == (
        "no",
        "2 logins are found, but all are empty: pull secret shop/s has no user name and no password under 'reg.io/a'",
    )
    plugin = provider("p", ["reg.io"], answering({"reg.io": LOGIN}))
    assert verdict_of(providers(plugin).lookup("reg.io/b", pull_secrets=(secret,))) == (
        "yes",
        "2 credentials are found; the first is an empty login of pull secret shop/s",
    )


def test_what_is_not_known_is_not_said() -> None:
    answer = replace(lookup({}), untold=(MissingInput(LookupInput.POD),))
    outcome, text = verdict_of(answer)
    assert outcome == "unknown"
    assert text.startswith("cannot tell whether the kubelet has a credential: the pod was not given")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, "yes: reg.io/a/b can be pulled with bob of provider p"),
        (RegistryError("reg.io", 401, "m"), "no: reg.io/a/b cannot be pulled with bob of provider p"),
        (
            RegistryError("reg.io", 404, "m"),
            "no: the registry has no reg.io/a/b, or hides it from users without access",
        ),
        (
            RegistryError("reg.io", 0, "https://reg.io: cannot be reached: x", Kind.UNREACHABLE),
            "cannot tell whether reg.io/a/b can be pulled: https://reg.io: cannot be reached: x",
        ),
        (
            RegistryError("reg.io", 500, "m"),
            "cannot tell whether reg.io/a/b can be pulled: the registry gave no conclusive response: m",
        ),
    ],
    ids=["yes", "refused", "not found", "unreachable", "inconclusive"],
)
def test_with_a_check_it_is_the_registrys_word(error: RegistryError | None, expected: str) -> None:
    answer = lookup({"reg.io": LOGIN})
    check = RegistryCheck(answer.image, (Attempt(answer.credentials[0], error),))
    outcome, text = verdict_of(answer, check)
    assert text == expected
    assert outcome == str(check.verdict)
    assert check.verdict in PullVerdict
