"""The keyring of a provider's answer."""

from __future__ import annotations

from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.images.answer import LookupInput, MissingInput, Provision, ProvisionOutcome
from keyferry.images.keyring import ServiceAccountRef, SourceKind

AUTH = {"reg.io": AuthConfig("user", "p1"), "user:hidden@other.io": AuthConfig("other", "p2")}


def test_a_keyring_has_the_answers_credentials_with_their_source() -> None:
    account = ServiceAccountRef("ns", "sa", "uid")
    keyring = Provision("p", ProvisionOutcome.RAN, AUTH, account=account).keyring
    [credential] = keyring.lookup("reg.io/app")
    assert (credential.username, credential.password, credential.key) == ("user", "p1", "reg.io")
    assert (credential.source.kind, credential.source.name) == (SourceKind.PROVIDER, "p")
    assert credential.source.service_account == account
    assert keyring.index() == ["reg.io", "other.io"]


def test_an_answer_tells_which_inputs_were_missing() -> None:
    answer, pod = Provision("p", ProvisionOutcome.CACHED, AUTH), (MissingInput(LookupInput.POD),)
    assert answer.with_missing(()) is answer
    assert answer.with_missing(pod).missing == pod
    assert answer.with_missing(pod).keyring.lookup("reg.io/app") == answer.keyring.lookup("reg.io/app")


def test_an_answer_without_credentials_has_none() -> None:
    failed = Provision("p", ProvisionOutcome.FAILED)
    assert failed.keyring.lookup("reg.io/app") == []
    assert failed == Provision("p", ProvisionOutcome.FAILED)
