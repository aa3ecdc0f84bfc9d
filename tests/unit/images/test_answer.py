"""An answer lists its failures, raises them when asked, and hides what it holds."""

from __future__ import annotations

import pytest

from keyferry.errors import PluginExitError, PluginProtocolError
from keyferry.images.answer import Answer, Failure, Provision, ProvisionOutcome
from keyferry.images.keyring import Credential, Source, SourceKind

FIRST = PluginExitError("one", 1, "kubernetes says hunter2")
PROVISIONS = (
    Provision(
        provider="one",
        outcome=ProvisionOutcome.FAILED,
        error=FIRST,
        kubernetes_text="kubernetes says hunter2",
    ),
    Provision(provider="two", outcome=ProvisionOutcome.SKIPPED, skipped="why"),
    Provision(
        provider="three", outcome=ProvisionOutcome.FAILED, error=PluginProtocolError("three", "problem")
    ),
)
CREDENTIAL = Credential(
    username="user", password="hunter2", source=Source(kind=SourceKind.PROVIDER, name="two"), key="reg.io"
)


def answer(provisions: tuple[Provision, ...]) -> Answer:
    return Answer(
        image="reg.io/app:v1",
        name="reg.io/app",
        credentials=(CREDENTIAL,),
        provisions=provisions,
        matching=(),
        providers=(),
    )


def test_failures_are_the_provisions_that_failed() -> None:
    """In order, with the error, Kubernetes' words beside it, and our words as text."""
    failures = answer(PROVISIONS).failures
    assert [(failure.provider, failure.error.kubernetes_text) for failure in failures] == [
        ("one", "kubernetes says hunter2"),
        ("three", "problem"),
    ]
    assert str(failures[0]) == "plugin 'one': exited with status 1"
    assert failures[0] == Failure(provider="one", error=FIRST, kubernetes_text="kubernetes says hunter2")


def test_the_first_failure_is_raised_on_request() -> None:
    """Without a failure nothing is raised."""
    with pytest.raises(PluginExitError) as caught:
        answer(PROVISIONS).raise_for_failures()
    assert caught.value is FIRST
    answer(PROVISIONS[1:2]).raise_for_failures()


def test_no_repr_shows_a_password_or_kubernetes_words() -> None:
    """Answer, failures and provisions can be printed as they are."""
    whole = answer(PROVISIONS)
    assert "hunter2" not in repr(whole) + repr(whole.failures) + repr(whole.provisions) + repr(vars(whole))
    assert "user" in repr(whole)
