"""The keyring of a provider's answer."""

from __future__ import annotations

from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.images.answer import LookupInput, MissingInput, Provision, ProvisionOutcome
from keyferry.images.keyring import ServiceAccountRef, SourceKind

AUTH = {
    "reg.io": AuthConfig(username="user", password="p1"),
    "user:hidden@other.io": AuthConfig(username="other", password="p2"),
}


def test_a_keyring_has_the_answers_credentials_with_their_source() -> None:
    account = ServiceAccountRef(namespace="ns", name="sa", uid="uid")
    keyring = Provision(provider="p", outcome=ProvisionOutcome.RAN, auth=AUTH, account=account).keyring
    [credential] = keyring.lookup("reg.io/app")
    assert (credential.username, credential.password, credential.key) == ("user", "p1", "reg.io")
    assert (credential.source.kind, credential.source.name) == (SourceKind.PROVIDER, "p")
    assert credential.source.service_account == account
    assert keyring.index() == ["reg.io", "other.io"]


def test_an_answer_tells_which_inputs_were_missing() -> None:
    answer, pod = (
        Provision(provider="p", outcome=ProvisionOutcome.CACHED, auth=AUTH),
        (MissingInput(input=LookupInput.POD),),
    )
    assert answer.with_missing(()) is answer
    assert answer.with_missing(pod).missing == pod
    assert answer.with_missing(pod).keyring.lookup("reg.io/app") == answer.keyring.lookup("reg.io/app")


def test_an_answer_without_credentials_has_none() -> None:
    failed = Provision(provider="p", outcome=ProvisionOutcome.FAILED)
    assert failed.keyring.lookup("reg.io/app") == []
    assert failed == Provision(provider="p", outcome=ProvisionOutcome.FAILED)
