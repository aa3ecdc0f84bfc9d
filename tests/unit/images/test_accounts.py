"""A provider is told of a pod's account what its config asks for, and nothing else."""

import base64
import json

import pytest

from keyferry.errors import ServiceAccountError
from keyferry.images.accounts import (
    NOBODY,
    Identity,
    NotApplicable,
    Pod,
    ServiceAccount,
    ServiceAccountRef,
    StaticAccount,
    TokenRequest,
    identify,
    pick_annotations,
    token_audiences,
)
from support.scripted import Accounts, attributes

POD = Pod("ns", "pod", "pod-uid", "builder")
REF = ServiceAccountRef("ns", "builder", "uid")
KNOWN = ServiceAccount("uid", {"role": "r", "team": "", "other": "x"})


class Refusing(Accounts):
    """An API server that knows accounts and gives no tokens."""

    def token(self, request: TokenRequest) -> str:
        """Always refused."""
        del request
        raise ServiceAccountError("forbidden", "Forbidden: no")


def test_listed_annotations_are_picked() -> None:
    """Required and optional ones that are there, an empty value included, and no others."""
    asked = attributes(required=("role", "team"), optional=("other", "absent"))
    assert pick_annotations(asked, KNOWN.annotations) == ({"role": "r", "team": "", "other": "x"}, "")
    assert pick_annotations(attributes(), KNOWN.annotations) == ({}, "")


def test_the_first_missing_annotation_is_named() -> None:
    """A required annotation that is missing leaves nothing picked."""
    assert pick_annotations(attributes(required=("role", "a", "b")), KNOWN.annotations) == ({}, "a")


def test_a_provider_without_attributes_is_told_of_nobody() -> None:
    """Also one without an audience, whatever the pod."""
    accounts = Accounts({})
    assert identify(None, accounts, POD) is NOBODY
    assert identify(type(attributes())(cache_type="Token"), accounts, POD) is NOBODY


@pytest.mark.parametrize("pod", [None, Pod("ns", "pod", "uid", "")])
def test_a_pod_without_an_account_is_skipped_or_nobody(pod: Pod | None) -> None:
    """With a required account the provider does not apply; without it runs for nobody."""
    with pytest.raises(NotApplicable, match="requires a service account"):
        identify(attributes(require=True), Accounts({}), pod)
    assert identify(attributes(require=False), Accounts({}), pod) is NOBODY


def test_an_account_is_fetched_with_its_token() -> None:
    """The token is requested for the account's UID, the audience and the pod."""
    accounts = Accounts({("ns", "builder"): KNOWN})
    identity = identify(attributes(required=("role",)), accounts, POD)
    assert identity == Identity(REF, "token-of-uid", {"role": "r"})
    assert accounts.requests == [TokenRequest(REF, "registry", POD)]


def test_a_missing_annotation_is_no_failure_and_asks_for_no_token() -> None:
    """The provider does not apply to that pod."""
    accounts = Accounts({("ns", "builder"): KNOWN})
    with pytest.raises(NotApplicable, match="lacks the annotation 'absent'"):
        identify(attributes(required=("absent",)), accounts, POD)
    assert accounts.requests == []


def test_a_missing_account_or_token_is_a_failure() -> None:
    """Both say which of the two could not be had, in our words and in Kubernetes'."""
    with pytest.raises(
        ServiceAccountError, match=r"^failed to get service account: serviceaccount 'builder'"
    ):
        identify(attributes(), Accounts({}), POD)
    with pytest.raises(ServiceAccountError) as caught:
        identify(attributes(), Refusing({("ns", "builder"): KNOWN}), POD)
    assert str(caught.value) == "failed to get service account token: forbidden"
    assert caught.value.kubernetes_text == "failed to get service account token: Forbidden: no"
    with pytest.raises(ServiceAccountError, match="no source of service accounts"):
        identify(attributes(), None, POD)


def test_a_token_request_is_bound_to_the_pod() -> None:
    """As the kubelet writes it: one audience, the account's UID, the server's own expiry."""
    assert TokenRequest(REF, "registry", POD).to_document() == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": "builder", "namespace": "ns", "uid": "uid"},
        "spec": {
            "audiences": ["registry"],
            "expirationSeconds": None,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod-uid"},
        },
    }


def test_a_static_account_answers_to_every_name() -> None:
    """One account and one token, hidden in its repr."""
    account = StaticAccount(KNOWN, "hunter2")
    assert account.get("any", "name") is KNOWN
    assert account.token(TokenRequest(REF, "a", POD)) == "hunter2"
    assert "hunter2" not in repr(account) + repr(Identity(REF, "hunter2"))


def web_token(claims: object) -> str:
    """A token in the form of an API server's; nobody checks the signature here."""
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("token", "audiences"),
    [
        (web_token({"aud": ["a", "b"]}), ("a", "b")),
        (web_token({"aud": "a"}), ("a",)),
        (web_token({"aud": ["a", 7]}), ("a",)),
        (web_token({"sub": "\u00ff\u00fe?>"}), ()),
        (web_token({"aud": None}), ()),
        (web_token(["a"]), None),
        ("opaque", None),
        ("a.b", None),
        ("a.!!!!.c", None),
        ("a.\u00e9.c", None),
        ("a.e30x.c", None),
        ("", None),
    ],
)
def test_the_audiences_of_a_token(token: str, audiences: tuple[str, ...] | None) -> None:
    """Those that its claims name; a token of another form tells nothing, and is no error."""
    assert token_audiences(token) == audiences


def test_a_token_for_somebody_else_is_kept_from_the_plugin() -> None:
    """Whoever gave it; the error names audiences and never the token."""
    wanted = attributes().service_account_token_audience
    for token in (web_token({"aud": ["https://kubernetes.default.svc"]}), web_token({"sub": "legacy"})):
        with pytest.raises(ServiceAccountError, match=f"expected the audience '{wanted}'") as caught:
            identify(attributes(), StaticAccount(KNOWN, token), POD)
        assert token.split(".")[1] not in f"{caught.value}{caught.value!r}{caught.value.kubernetes_text}"
    for token in (web_token({"aud": ["other", wanted]}), "opaque"):
        assert identify(attributes(), StaticAccount(KNOWN, token), POD).token == token
