"""The keyring of a provider's answer."""

from __future__ import annotations

from keyferry.api.credentialprovider.v1 import AuthConfig
from keyferry.images.credential import ServiceAccountRef, SourceKind
from keyferry.images.missing import LookupInput, MissingInput
from keyferry.images.provider.credentials import keyring_of
from keyferry.images.provider.provision import Provision, ProvisionOutcome

AUTH = {"reg.io": AuthConfig("user", "p1"), "user:hidden@other.io": AuthConfig("other", "p2")}


def test_a_keyring_has_the_answers_credentials_with_their_source() -> None:
    account = ServiceAccountRef("ns", "sa", "uid")
    keyring = keyring_of(Provision("p", ProvisionOutcome.RAN, AUTH, account=account))
    [credential] = keyring.lookup("reg.io/app")
    assert (credential.username, credential.password, credential.key) == ("user", "p1", "reg.io")
    assert (credential.source.kind, credential.source.name) == (SourceKind.PROVIDER, "p")
    assert credential.source.service_account == account
    assert keyring.index() == ["reg.io", "other.io"]


def test_a_keyring_is_made_once_for_an_answer() -> None:
    """Also for the copies that tell which inputs were missing, of which there is one."""
    answer, pod = Provision("p", ProvisionOutcome.CACHED, AUTH), (MissingInput(LookupInput.POD),)
    assert keyring_of(answer) is keyring_of(answer)
    assert answer.with_missing(()) is answer
    copied = answer.with_missing(pod)
    assert copied.missing == pod
    assert answer.with_missing(pod) is copied
    assert keyring_of(answer.with_missing(pod)) is keyring_of(copied)
    other = (MissingInput(LookupInput.SERVICE_ACCOUNT, "ns/sa"),)
    assert answer.with_missing(other).missing == other


def test_an_answer_without_credentials_has_none() -> None:
    failed = Provision("p", ProvisionOutcome.FAILED)
    assert keyring_of(failed).lookup("reg.io/app") == []
    assert failed == Provision("p", ProvisionOutcome.FAILED)
