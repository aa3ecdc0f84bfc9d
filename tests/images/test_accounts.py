"""A provider is told of a pod's account what its config asks for, and nothing else."""

from __future__ import annotations

import base64
import json

import pytest

from keyferry.api.kubeletconfig.v1 import ServiceAccountTokenAttributes
from keyferry.errors import ServiceAccountError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.provider.accounts import (
    NOBODY,
    Identity,
    NotApplicable,
    NotGivenError,
    Pod,
    Relayed,
    ServiceAccount,
    StaticAccount,
    TokenRequest,
    identify,
    pick_annotations,
    token_audiences,
)
from support.scripted import Accounts, attributes

POD = Pod(namespace="ns", name="pod", uid="pod-uid", service_account_name="builder")
REF = ServiceAccountRef(namespace="ns", name="builder", uid="uid")
ANNOTATIONS = {"role": "r", "team": "", "other": "x"}
KNOWN = ServiceAccount(uid="uid", annotations=ANNOTATIONS)


class Refusing(Accounts):
    """An API server that knows accounts and gives no tokens."""

    def token(self, request: TokenRequest) -> str:
        """Always refused."""
        del request
        raise ServiceAccountError("forbidden", "Forbidden: no")


def test_listed_annotations_are_picked() -> None:
    """Required and optional ones that are there, an empty value included, and no others."""
    asked = attributes(required=("role", "team"), optional=("other", "absent"))
    assert pick_annotations(asked, ANNOTATIONS) == ({"role": "r", "team": "", "other": "x"}, "")
    assert pick_annotations(attributes(), ANNOTATIONS) == ({}, "")


def test_the_first_missing_annotation_is_named() -> None:
    """A required annotation that is missing leaves nothing picked."""
    assert pick_annotations(attributes(required=("role", "a", "b")), ANNOTATIONS) == ({}, "a")


def test_a_provider_without_attributes_is_told_of_nobody() -> None:
    """Also one without an audience, whatever the pod."""
    accounts = Accounts({})
    assert identify(None, accounts, POD) is NOBODY
    assert identify(type(attributes())(cache_type="Token"), accounts, POD) is NOBODY


def test_a_pod_without_an_account_is_skipped_or_nobody() -> None:
    """With a required account the provider does not apply; without it runs for nobody."""
    pod = Pod(namespace="ns", name="pod", uid="uid", service_account_name="")
    with pytest.raises(NotApplicable, match="requires a service account"):
        identify(attributes(require=True), Accounts({}), pod)
    assert identify(attributes(require=False), Accounts({}), pod) is NOBODY


def test_without_a_pod_nobody_knows_whether_the_provider_applies() -> None:
    """A required account is not taken for a missing one; without that it runs for nobody, and says so."""
    with pytest.raises(NotGivenError) as caught:
        identify(attributes(require=True), Accounts({}), None)
    assert caught.value.missing == (MissingInput(input=LookupInput.POD),)
    assert identify(attributes(require=False), Accounts({}), None) == Identity(
        missing=(MissingInput(input=LookupInput.POD),)
    )


NAMED = "ns/builder"
NO_ACCOUNT, NO_TOKEN = (
    MissingInput(input=LookupInput.SERVICE_ACCOUNT, name=NAMED),
    MissingInput(input=LookupInput.SERVICE_ACCOUNT_TOKEN, name=NAMED),
)
NOT_KNOWN = ServiceAccount(uid="", annotations=None)


@pytest.mark.parametrize(
    ("account", "token", "asked", "missing"),
    [
        pytest.param(NOT_KNOWN, None, attributes(), (NO_TOKEN,), id="neither, and no annotation matters"),
        pytest.param(NOT_KNOWN, None, attributes(required=("role",)), (NO_ACCOUNT, NO_TOKEN), id="neither"),
        pytest.param(NOT_KNOWN, "t", attributes(required=("role",)), (NO_ACCOUNT,), id="token alone"),
        pytest.param(KNOWN, None, attributes(required=("role",)), (NO_TOKEN,), id="account alone"),
    ],
)
def test_what_was_not_given_is_told_from_what_is_not_there(
    account: ServiceAccount,
    token: str | None,
    asked: ServiceAccountTokenAttributes,
    missing: tuple[MissingInput, ...],
) -> None:
    """Each missing input by its kind and name; the error is one of accounts, for those who raise it."""
    with pytest.raises(NotGivenError) as caught:
        identify(asked, StaticAccount(account=account, token_text=token), POD)
    assert caught.value.missing == missing
    assert isinstance(caught.value, ServiceAccountError)
    assert str(NotGivenError(*caught.value.args)) == str(caught.value)


def test_a_known_account_without_a_required_annotation_needs_no_token_to_say_no() -> None:
    """The kubelet looks at annotations first: that no is sure."""
    with pytest.raises(NotApplicable, match="lacks the annotation 'absent'"):
        identify(attributes(required=("absent",)), StaticAccount(account=KNOWN, token_text=None), POD)


def test_optional_annotations_that_are_not_known_are_told() -> None:
    """The provider is asked without them, and the answer says what was missing."""
    identity = identify(attributes(optional=("role",)), StaticAccount(account=NOT_KNOWN, token_text="t"), POD)
    assert (identity.token, identity.annotations, identity.missing) == ("t", {}, (NO_ACCOUNT,))


def test_an_account_is_fetched_with_its_token() -> None:
    """The token is requested for the account's UID, the audience and the pod."""
    accounts = Accounts({("ns", "builder"): KNOWN})
    identity = identify(attributes(required=("role",)), accounts, POD)
    assert identity == Identity(ref=REF, token="token-of-uid", annotations={"role": "r"})
    assert accounts.requests == [TokenRequest(account=REF, audience="registry", pod=POD)]


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
    with pytest.raises(NotGivenError, match="a token of the service account 'ns/builder' was not given"):
        identify(attributes(), None, POD)


def test_a_token_request_is_bound_to_the_pod() -> None:
    """As the kubelet writes it: one audience, the account's UID, the server's own expiry."""
    assert TokenRequest(account=REF, audience="registry", pod=POD).to_document() == {
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
    account = StaticAccount(account=KNOWN, token_text="hunter2")
    assert account.get("any", "name") is KNOWN
    assert account.token(TokenRequest(account=REF, audience="a", pod=POD)) == "hunter2"
    assert "hunter2" not in repr(account) + repr(Identity(ref=REF, token="hunter2"))


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
        server = Accounts({("ns", "builder"): KNOWN})
        server.tokens["ns", "builder"] = token
        for accounts in (StaticAccount(account=KNOWN, token_text=token), server):
            with pytest.raises(ServiceAccountError, match=f"expected the audience '{wanted}'") as caught:
                identify(attributes(), accounts, POD)
            # What a person gave by mistake says nothing of what a kubelet would get; what a server gave is a failure.
            assert isinstance(caught.value, NotGivenError) is isinstance(accounts, StaticAccount)
            assert token.split(".")[1] not in f"{caught.value}{caught.value!r}{caught.value.kubernetes_text}"
    for token in (web_token({"aud": ["other", wanted]}), "opaque"):
        assert identify(attributes(), StaticAccount(account=KNOWN, token_text=token), POD).token == token


@pytest.mark.parametrize(
    ("claims", "wrong"),
    [
        (None, "is empty"),
        (
            {"sub": "system:serviceaccount:ns:other"},
            "is of 'system:serviceaccount:ns:other', expected '{owner}'",
        ),
        ({"exp": 1}, "has expired"),
        ({"exp": 1 << 40}, ""),
        ({"sub": "{owner}"}, ""),
        ({"sub": "somebody", "exp": "soon"}, ""),
    ],
)
def test_a_token_that_no_kubelet_would_get_counts_as_none(
    claims: dict[str, object] | None, wrong: str
) -> None:
    """Of another account, or no longer good: what its plugin would answer cannot be told."""
    owner = f"system:serviceaccount:{POD.namespace}:{POD.service_account_name}"
    audience = attributes().service_account_token_audience
    token = ""
    if claims is not None:
        token = web_token(
            {k: v.format(owner=owner) if isinstance(v, str) else v for k, v in claims.items()}
            | {"aud": audience}
        )
    if not wrong:
        assert identify(attributes(), StaticAccount(account=KNOWN, token_text=token), POD).token == token
        return
    with pytest.raises(NotGivenError, match=r"the given token .* to create one") as caught:
        identify(attributes(), StaticAccount(account=KNOWN, token_text=token), POD)
    (missing,) = caught.value.missing
    assert (missing.input, missing.name) == (NO_TOKEN.input, NO_TOKEN.name)
    assert wrong.format(owner=owner) in missing.instead


def test_a_token_that_is_passed_on_stands_for_its_account() -> None:
    """No account is asked for; the annotations that the provider may see are picked as ever."""
    relayed = Relayed(token="t", annotations=ANNOTATIONS, key=b"k", until_ns=7, ref=REF)
    found = identify(attributes(required=("role",)), None, relayed)
    assert (found.ref, found.token, found.annotations) == (REF, "t", {"role": "r"})
    assert (found.key, found.until_ns) == (b"k", 7)
