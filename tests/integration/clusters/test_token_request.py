"""Tokens of service accounts, requested from an API server over TLS, and every way in which it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry._core.jwt_claims import read_claims
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.clusters.api_calls import ApiProblem, BoundPod, IssuedToken, request_token
from keyferry.clusters.session import ClusterSession
from keyferry.errors import Kind, NodeAudienceError
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Pod, ServiceAccount
from keyferry.images.provider.provider import Provider
from keyferry.workloads.rbac import node_manifests
from keyferry.workloads.tokens import NodeTokens, RequestedTokens
from support.certificates import Authority
from support.function_plugins import answering
from support.kube import TOKEN, Kube
from support.kubernetes_api import ISSUER, KubernetesApi, account, pod

AUDIENCE = "registry.example"


@pytest.fixture
def api(authority: Authority) -> Iterator[KubernetesApi]:
    """A server with a pod and its account; bob may request tokens in shop."""
    with KubernetesApi(authority) as running:
        running.add_user(TOKEN, "bob")
        running.permit(TOKEN, "create", "serviceaccounts/token", "shop")
        running.add(pod(serviceAccountName="puller"), account("puller"))
        yield running


@pytest.fixture
def session(api: KubernetesApi, tmp_path: Path, authority: Authority) -> ClusterSession:
    """A session of bob."""
    kube = Kube(tmp_path)
    kube.write(api.url, ca=authority.pem, user={"token": TOKEN})
    return kube.load()


def uid_of(api: KubernetesApi, resource: str, name: str) -> str:
    """Return the UID of an object in shop."""
    metadata = api.objects["", resource, "shop", name]["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["uid"])


def test_a_token_is_for_the_audience_and_bound_to_the_pod(
    api: KubernetesApi, session: ClusterSession
) -> None:
    """The claims are those of a kubelet's token."""
    uid = uid_of(api, "pods", "web")
    bound = BoundPod(name="web", uid=uid)
    account_uid = uid_of(api, "serviceaccounts", "puller")
    found = request_token(session, "shop", "puller", audience=AUDIENCE, pod=bound, account_uid=account_uid)
    assert isinstance(found, IssuedToken)
    claims = read_claims(found.token, is_strict=False)
    assert claims["aud"] == [AUDIENCE]
    assert claims["sub"] == "system:serviceaccount:shop:puller"
    details = claims["kubernetes.io"]
    assert isinstance(details, dict)
    assert details["pod"] == {"name": "web", "uid": uid}
    assert found.expires.endswith("Z")
    assert found.token not in repr(found)


def test_without_an_audience_the_server_chooses_its_own(session: ClusterSession) -> None:
    """No audience gives a token for the API server, unbound, of the requested duration."""
    found = request_token(session, "shop", "puller", expiration_seconds=600)
    assert isinstance(found, IssuedToken)
    claims = read_claims(found.token, is_strict=False)
    assert claims["aud"] == [ISSUER]
    assert (int(str(claims["exp"])) - int(str(claims["iat"]))) == 600


def test_a_refusal_names_verb_resource_and_namespace(api: KubernetesApi, session: ClusterSession) -> None:
    """The problem has the words of the rule that is missing, and the server's own."""
    api.add(account("puller", "other"))
    found = request_token(session, "other", "puller", audience=AUDIENCE)
    assert isinstance(found, ApiProblem)
    assert (found.kind, found.status) == (Kind.REFUSED, 403)
    assert str(found.action) == "create serviceaccounts/token in other"
    assert str(found) == (
        "no permission to create serviceaccounts/token in other: "
        'serviceaccounts "puller" is forbidden: User "bob" cannot create resource "serviceaccounts/token" '
        'in API group "" in the namespace "other"'
    )


def test_an_unknown_user_is_refused(api: KubernetesApi, session: ClusterSession) -> None:
    """A 401 is a refusal too."""
    api.users.clear()
    found = request_token(session, "shop", "puller")
    assert isinstance(found, ApiProblem)
    assert str(found) == (
        "cannot create serviceaccounts/token in shop: the server responded 401: Unauthorized"
    )
    assert found.kind is Kind.REFUSED


def test_an_account_that_does_not_exist_is_not_found(session: ClusterSession) -> None:
    """A 404 is told from a refusal."""
    found = request_token(session, "shop", "nobody")
    assert isinstance(found, ApiProblem)
    assert found.kind is Kind.NOT_FOUND
    assert str(found) == (
        'cannot create serviceaccounts/token in shop: not found: serviceaccounts "nobody" not found'
    )


@pytest.mark.parametrize(
    ("bound", "seconds", "status", "said"),
    [
        pytest.param(
            BoundPod(name="web", uid="other-uid"),
            None,
            409,
            "does not match the UID in record",
            id="another-uid",
        ),
        pytest.param(BoundPod(name="nosuch"), None, 404, 'pods "nosuch" not found', id="no-such-pod"),
        pytest.param(
            BoundPod(name="else"), None, 400, "running with different serviceaccount name", id="other-account"
        ),
        pytest.param(None, 599, 422, "may not specify a duration less than 10 minutes", id="too-short"),
    ],
)
def test_malformed_requests_are_problems(
    api: KubernetesApi,
    session: ClusterSession,
    bound: BoundPod | None,
    seconds: int | None,
    status: int,
    said: str,
) -> None:
    """The server's own words say what is wrong with a request."""
    api.add(pod("else"))
    found = request_token(session, "shop", "puller", pod=bound, expiration_seconds=seconds)
    assert isinstance(found, ApiProblem)
    assert found.status == status
    assert said in found.message
    assert api.issued == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"kind": "TokenRequest"}', b'{"kind": "Status", "status": {"token": "t0ken"}}']
)
def test_a_response_without_a_token_is_a_problem_and_is_not_quoted(
    api: KubernetesApi, session: ClusterSession, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of such a response is shown: it may hold a token."""
    monkeypatch.setattr(api, "respond", lambda _: (201, body))
    found = request_token(session, "shop", "puller")
    assert isinstance(found, ApiProblem)
    assert found.kind is Kind.CONTENT
    assert str(found).startswith("cannot create serviceaccounts/token in shop: the response is not a ")
    assert "t0ken" not in str(found)


def test_a_node_that_may_not_request_the_audience_is_an_error_with_what_permits_it(
    api: KubernetesApi, session: ClusterSession
) -> None:
    """It is the provider's failure in a lookup, and its attributes say what to do."""
    api.node_audiences = set()
    accounts = RequestedTokens(
        session=session, account=ServiceAccount(uid="u"), node=NodeTokens(name="node1")
    )
    attributes = ServiceAccountTokenAttributes(
        service_account_token_audience=AUDIENCE, cache_type="Token", require_service_account=True
    )
    entry = CredentialProvider(
        name="p", match_images=(AUDIENCE,), default_cache_duration_ns=0, token_attributes=attributes
    )
    providers = Providers([Provider(entry, answering({AUDIENCE: ("u", "p")}), accounts=accounts)])
    answer = providers.lookup(
        f"{AUDIENCE}/app", pod=Pod(namespace="shop", name="web", uid="", service_account_name="puller")
    )
    (failure,) = answer.kubelet_failures
    error = failure.error
    assert isinstance(error, NodeAudienceError)
    assert (error.kind, error.node, error.audience) == (Kind.REFUSED, "node1", AUDIENCE)
    assert error.account == "shop/puller"
    assert error.manifests == node_manifests((AUDIENCE,), "puller")
    assert 'serviceaccounts "puller" is forbidden: system:node:node1 is not' in error.kubernetes_text
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.manifests) == (str(error), error.manifests)
