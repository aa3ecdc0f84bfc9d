"""A provider is told of a pod's account what its config asks for, and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

import pytest

from keyferry import Pod, ServiceAccount, ServiceAccounts, StaticAccount, TokenRequest
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest
from keyferry.api.kubeletconfig.v1 import ServiceAccountTokenAttributes
from keyferry.errors import ServiceAccountError
from keyferry.images.answer import LookupInput, MissingInput, Provision, ProvisionOutcome
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.provider.accounts import NotGivenError, Relayed
from support.scripted import SECOND, Accounts, Clock, Scripted, attributes, configured, provider, response

IMAGE, AUDIENCE = "reg.io/app", attributes().service_account_token_audience
POD = Pod(namespace="ns", name="pod", uid="pod-uid", service_account_name="builder")
NO_ACCOUNT_POD = Pod(namespace="ns", name="pod", uid="uid", service_account_name="")
REF = ServiceAccountRef(namespace="ns", name="builder", uid="uid")
KNOWN = ServiceAccount(uid="uid", annotations={"role": "r", "team": "", "other": "x", "more": "y"})
NOT_KNOWN = ServiceAccount(uid="", annotations=None)
NO_POD = MissingInput(input=LookupInput.POD)
NO_ACCOUNT = MissingInput(input=LookupInput.SERVICE_ACCOUNT, name="ns/builder")
NO_TOKEN = MissingInput(input=LookupInput.SERVICE_ACCOUNT_TOKEN, name="ns/builder")
NO_AUDIENCE = ServiceAccountTokenAttributes(cache_type="Token")


def builder() -> Accounts:
    """An API server that knows the account of the pod."""
    return Accounts({("ns", "builder"): KNOWN})


def given(token: str | None, account: ServiceAccount = KNOWN) -> StaticAccount:
    """What a person gives in place of an API server."""
    return StaticAccount(account=account, token_text=token)


def ask(
    asked: ServiceAccountTokenAttributes | None, accounts: ServiceAccounts | None, pod: Pod | None = POD
) -> tuple[Provision, list[CredentialProviderRequest]]:
    """What a provider answers with these attributes, and what its plugin was asked."""
    plugin = Scripted(response())
    found = provider(plugin, Clock(), configured(token_attributes=asked), accounts).provide(IMAGE, pod)
    return found, plugin.requests


def told(token: str = "", annotations: Mapping[str, str] | None = None) -> list[CredentialProviderRequest]:
    """One request with these data of an account."""
    return [
        CredentialProviderRequest(
            image=IMAGE, service_account_token=token, service_account_annotations=annotations
        )
    ]


@pytest.mark.parametrize(
    ("asked", "pod"),
    [
        pytest.param(None, POD, id="no attributes"),
        pytest.param(NO_AUDIENCE, POD, id="no audience"),
        pytest.param(attributes(require=False), NO_ACCOUNT_POD, id="a pod without an account"),
        pytest.param(attributes(require=False), None, id="no pod"),
    ],
)
def test_a_provider_that_need_not_know_is_told_of_nobody(
    asked: ServiceAccountTokenAttributes | None, pod: Pod | None
) -> None:
    """Where the pod is not known, the answer says so."""
    found, requests = ask(asked, Accounts({}), pod)
    assert requests == told()
    assert found.missing == (() if pod else (NO_POD,))


def test_an_answer_that_may_be_anothers_says_so_from_the_cache_too() -> None:
    attributes_ = attributes(require=False)
    asked = provider(Scripted(response()), Clock(), configured(token_attributes=attributes_), None)
    asked.provide(IMAGE)
    again = asked.provide(IMAGE)
    assert (again.outcome, again.missing) == (ProvisionOutcome.CACHED, (NO_POD,))


@pytest.mark.parametrize(
    ("asked", "accounts", "pod", "why"),
    [
        pytest.param(attributes(), Accounts({}), NO_ACCOUNT_POD, "requires a service account", id="account"),
        pytest.param(
            attributes(required=("role", "absent")),
            builder(),
            POD,
            "lacks the annotation 'absent'",
            id="annotation",
        ),
        pytest.param(
            attributes(required=("absent",)),
            given(None),
            POD,
            "lacks the annotation 'absent'",
            id="annotation, whatever the token",
        ),
    ],
)
def test_a_provider_that_does_not_apply_to_a_pod_is_skipped(
    asked: ServiceAccountTokenAttributes, accounts: Accounts | StaticAccount, pod: Pod, why: str
) -> None:
    """It is no failure, and no token is requested: the kubelet looks at annotations first."""
    found, requests = ask(asked, accounts, pod)
    assert (found.outcome, found.error, requests) == (ProvisionOutcome.SKIPPED, None, [])
    assert why in found.skipped
    assert not isinstance(accounts, Accounts) or accounts.requests == []


def test_without_a_pod_nobody_knows_whether_the_provider_applies() -> None:
    """A required account is not taken for a missing one, and nothing counts as failed."""
    plugin = Scripted(response())
    asked = provider(plugin, Clock(), configured(token_attributes=attributes()), Accounts({}))
    found = asked.provide(IMAGE)
    assert (found.outcome, found.missing, found.error) == (ProvisionOutcome.UNKNOWN, (NO_POD,), None)
    assert (plugin.requests, asked.counters.read().failures) == ([], {})


@pytest.mark.parametrize(
    ("accounts", "asked", "missing"),
    [
        pytest.param(None, attributes(), (NO_TOKEN,), id="no source of accounts"),
        pytest.param(
            given(None, NOT_KNOWN), attributes(), (NO_TOKEN,), id="neither, and no annotation matters"
        ),
        pytest.param(
            given(None, NOT_KNOWN), attributes(required=("role",)), (NO_ACCOUNT, NO_TOKEN), id="neither"
        ),
        pytest.param(given("t", NOT_KNOWN), attributes(required=("role",)), (NO_ACCOUNT,), id="token alone"),
        pytest.param(given(None), attributes(required=("role",)), (NO_TOKEN,), id="account alone"),
    ],
)
def test_what_was_not_given_is_told_from_what_is_not_there(
    accounts: StaticAccount | None, asked: ServiceAccountTokenAttributes, missing: tuple[MissingInput, ...]
) -> None:
    """Each missing input by its kind and name; the error is one of accounts, for those who raise it."""
    found, requests = ask(asked, accounts)
    assert (found.outcome, found.missing, requests) == (ProvisionOutcome.UNKNOWN, missing, [])
    assert isinstance(found.error, ServiceAccountError)


def test_optional_annotations_that_are_not_known_are_told() -> None:
    """The provider is asked without them, and the answer says what was missing."""
    found, requests = ask(attributes(optional=("role",)), given("t", NOT_KNOWN))
    assert (requests, found.missing) == (told("t", {}), (NO_ACCOUNT,))


def test_an_account_is_fetched_with_its_token_and_the_listed_annotations() -> None:
    """The token is requested for the account's UID, the audience and the pod; the answer says for whom it is."""
    accounts = builder()
    found, requests = ask(attributes(required=("role", "team"), optional=("other", "absent")), accounts)
    assert requests == told("token-of-uid", {"role": "r", "team": "", "other": "x"})
    assert found.account == REF
    assert accounts.requests == [TokenRequest(account=REF, audience="registry", pod=POD)]


class Refusing(Accounts):
    """An API server that knows accounts and gives no tokens."""

    def token(self, request: TokenRequest) -> str:
        """Always refused."""
        del request
        raise ServiceAccountError("forbidden", "Forbidden: no")


def test_a_missing_account_or_token_is_a_failure() -> None:
    """Both say which of the two could not be had, in our words and in Kubernetes'."""
    found, _ = ask(attributes(), Accounts({}))
    assert str(found.error).startswith("failed to get service account: serviceaccount 'builder'")
    found, requests = ask(attributes(), Refusing({("ns", "builder"): KNOWN}))
    assert str(found.error) == "failed to get service account token: forbidden"
    assert found.kubernetes_text == "failed to get service account token: Forbidden: no"
    assert (found.outcome, requests) == (ProvisionOutcome.FAILED, [])


def test_a_token_is_requested_before_the_cache_is_looked_at() -> None:
    """As in the kubelet: when the account cannot be had, a cached answer does not help."""
    accounts = builder()
    asked = provider(Scripted(response()), Clock(), configured(token_attributes=attributes()), accounts)
    asked.provide(IMAGE, POD)
    assert asked.provide(IMAGE, POD).outcome is ProvisionOutcome.CACHED
    accounts.accounts.clear()
    assert asked.provide(IMAGE, POD).outcome is ProvisionOutcome.FAILED
    assert asked.counters.read().failures == {"service-account": 1}


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


def web_token(claims: object) -> str:
    """A token in the form of an API server's; nobody checks the signature here."""
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "token",
    [
        web_token({"aud": ["other", AUDIENCE]}),
        web_token({"aud": AUDIENCE}),
        web_token([AUDIENCE]),
        *("opaque", "a.b", "a.!!!!.c", "a.\u00e9.c", "a.e30x.c"),
    ],
)
def test_a_token_for_the_audience_or_of_another_form_is_passed_on(token: str) -> None:
    """A token of another form tells nothing of its audience, and is no error."""
    assert ask(attributes(), given(token))[1] == told(token, {})


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["https://kubernetes.default.svc"]},
        {"aud": ["a", 7]},
        {"aud": None},
        {"sub": "\u00ff\u00fe?>"},
    ],
)
def test_a_token_for_somebody_else_is_kept_from_the_plugin(claims: object) -> None:
    """Whoever gave it; the error names audiences and never the token."""
    token = web_token(claims)
    server = builder()
    server.tokens["ns", "builder"] = token
    for accounts in (given(token), server):
        found, requests = ask(attributes(), accounts)
        assert requests == []
        assert f"expected the audience '{AUDIENCE}'" in str(found.error)
        # What a person gave by mistake says nothing of what a kubelet would get; what a server gave is a failure.
        assert isinstance(found.error, NotGivenError) is isinstance(accounts, StaticAccount)
        assert token.split(".")[1] not in f"{found.error}{found.error!r}{found.kubernetes_text}"


OWNER = f"system:serviceaccount:{POD.namespace}:{POD.service_account_name}"


@pytest.mark.parametrize(
    ("claims", "wrong"),
    [
        ({"sub": "system:serviceaccount:ns:other"}, f"is of 'system:serviceaccount:ns:other', expected '{OWNER}'"),
        ({"exp": 1}, "has expired"),
        ({"exp": 1 << 40}, ""),
        ({"sub": OWNER}, ""),
        ({"sub": "somebody", "exp": "soon"}, ""),
    ],
)  # fmt: skip
def test_a_token_that_no_kubelet_would_get_counts_as_none(claims: dict[str, object], wrong: str) -> None:
    """Of another account, or no longer good: what its plugin would answer cannot be told."""
    token = web_token(claims | {"aud": AUDIENCE})
    found, requests = ask(attributes(), given(token))
    assert requests == ([] if wrong else told(token, {}))
    assert [(each.input, each.name) for each in found.missing] == [(NO_TOKEN.input, NO_TOKEN.name)] * bool(
        wrong
    )
    assert all(wrong in each.instead and "to create one" in each.instead for each in found.missing)


def test_an_empty_token_counts_as_none() -> None:
    (missing,) = ask(attributes(), given(""))[0].missing
    assert "the given token is empty" in missing.instead


# Tokens that a caller passes on


def relayed(token: str, until_ns: int | None = 1 << 60, **annotations: str) -> Relayed:
    """Return what a caller passes on; its key is the whole token, which is enough for a test."""
    return Relayed(token=token, key=token.encode(), until_ns=until_ns, annotations=annotations, ref=REF)


def test_an_answer_for_a_relayed_token_is_for_that_token_alone() -> None:
    """Another token, with the same claims or not, runs the plugin; so does no token."""
    plugin = Scripted(response(cache_seconds=60))
    asked = provider(plugin, Clock(), configured(token_attributes=attributes()))
    first = asked.provide(IMAGE, relayed("one"))
    assert (first.outcome, first.account) == (ProvisionOutcome.RAN, REF)
    assert asked.provide(IMAGE, relayed("one")).outcome is ProvisionOutcome.CACHED
    assert asked.recall(IMAGE, relayed("one")) is not None
    assert asked.recall(IMAGE, relayed("two")) is None
    assert asked.provide(IMAGE, relayed("two")).outcome is ProvisionOutcome.RAN
    assert [request.service_account_token for request in plugin.requests] == ["one", "two"]
    assert [each.is_shared for each in asked.answers()] == [False, False]
    assert [use.entries for use in asked.cache_uses()] == [0, 2]


def test_an_answer_for_a_relayed_token_ends_with_the_token() -> None:
    """It is dropped when the token expires, and never kept if that is not known or past."""
    clock = Clock()
    asked = provider(Scripted(response(cache_seconds=60)), clock, configured(token_attributes=attributes()))
    until = clock.now + 5 * SECOND
    assert asked.provide(IMAGE, relayed("one", until)).expires_ns == until
    clock.now = until + 1
    assert asked.recall(IMAGE, relayed("one", until)) is None
    for ended in (None, until):
        assert asked.provide(IMAGE, relayed("one", ended)).expires_ns is None
    assert asked.recall(IMAGE, relayed("one", None)) is None


def test_a_relayed_token_goes_to_providers_that_ask_for_one_alone() -> None:
    """A provider without tokenAttributes answers everybody from one cache."""
    plugin = Scripted(response(cache_seconds=60))
    asked = provider(plugin, Clock())
    asked.provide(IMAGE, relayed("one"))
    assert asked.provide(IMAGE, relayed("two")).outcome is ProvisionOutcome.CACHED
    assert plugin.requests == told()


def test_a_relayed_token_without_a_required_annotation_is_not_passed_on() -> None:
    """As for a pod, the provider does not apply; of the annotations, those that it may see are passed on."""
    asked = attributes(required=("team",))
    found, requests = ask(asked, None, relayed("one", other="x"))
    assert (found.outcome, requests) == (ProvisionOutcome.SKIPPED, [])
    assert ask(asked, None, relayed("one", team="a", other="x"))[1] == told("one", {"team": "a"})


def test_a_relayed_token_for_somebody_else_is_kept_from_the_plugin() -> None:
    found, requests = ask(attributes(), None, relayed(web_token({"aud": "another"})))
    assert (found.outcome, requests) == (ProvisionOutcome.FAILED, [])
    assert f"expected the audience '{AUDIENCE}'" in str(found.error)
