"""The links of a chain from a service account to an image: how each is checked, what is found, and its cure."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from enum import StrEnum

from keyferry._core.jwt_claims import JwtError, read_claims
from keyferry._core.secrets import MASK
from keyferry._core.user_info import hide_in_url, hide_user_info
from keyferry._core.values import Value, field
from keyferry._net.forms import encode_percent
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.api.meta import format_instant
from keyferry.clusters.api_calls import ApiAction, ApiProblem, BoundPod, call_api, request_token, review
from keyferry.clusters.session import ClusterSession
from keyferry.errors import KeyferryError, Kind, MatchError
from keyferry.explain.explanation import PullVerdict
from keyferry.explain.registry import RegistryCheck, describe_attempt
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.keyring import Credential, ServiceAccountRef, lookup_all
from keyferry.images.lookup import Providers
from keyferry.images.match import PatternIndex, explain_match, normalise_key
from keyferry.images.provider.accounts import (
    Pod,
    ServiceAccount,
    pick_annotations,
)
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import ImageName, registry_of
from keyferry.kit.lab.secrets import shown_key
from keyferry.workloads.objects import KubernetesObject, ObjectKind
from keyferry.workloads.pods import token_audiences
from keyferry.workloads.rbac import node_manifests, user_manifests
from keyferry.workloads.tokens import NodeTokens, PermissionReason, review_node

Json = dict[str, object]
# A longer user name may be a secret.
_MAX_NAME = 64
_UNAUTHORIZED, _FORBIDDEN, _SERVER_ERROR = 401, 403, 500
_SECOND = 1_000_000_000
_NO_USER = "YOUR-USER"
_APPLY = "as an administrator of the cluster, permit it with 'kubectl apply -f -' and these objects"


class LinkName(StrEnum):
    """The links of a chain, in order."""

    PROVIDER = "provider"
    ACCOUNT = "account"
    TOKEN = "token"  # noqa: S105 - the name of a link
    NODE = "node"
    CLAIMS = "claims"
    PLUGIN = "plugin"
    KEYS = "keys"
    REGISTRY = "registry"


class LinkState(StrEnum):
    """The state of a link."""

    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    NOT_REACHED = "notReached"


class Link(Value):
    """One link: what was found as a sentence and as facts, and the cure if it is not in order.

    *manifests* are Kubernetes objects that cure it. *kind* is the kind of the problem, and *error* the problem itself
    if it is an exception. A link that *is_report* is a step of the plugin by its own report, named ``plugin/NAME``.
    """

    name: str
    state: LinkState
    text: str
    facts: Mapping[str, object] = field(default_factory=dict)
    cure: str = ""
    manifests: tuple[Json, ...] = ()
    kind: Kind | None = None
    error: KeyferryError | None = None
    is_report: bool = False


# The links that the cluster holds: the account, its token, the kubelets' permission, the claims.


class AccountQuestion(Value):
    """The account, the attributes of the provider, the session, and how kubectl is called for the same cluster."""

    namespace: str
    name: str
    attributes: ServiceAccountTokenAttributes
    session: ClusterSession
    kubectl: str = "kubectl"
    timeout_seconds: float = 60.0

    @property
    def audience(self) -> str:
        """The audience that the provider is configured for."""
        return self.attributes.service_account_token_audience

    @property
    def path(self) -> str:
        """The path of the namespace in the API."""
        return f"/api/v1/namespaces/{encode_percent(self.namespace)}"


class BoundTo(Value):
    """The pod that the token is bound to; *uid* and *node* are empty if the pod could not be read."""

    name: str = ""
    uid: str = ""
    node: str = ""
    account: str = ""
    audiences: tuple[str, ...] = ()
    note: str = ""


class Issued(Value):
    """The token of an account; never shown."""

    token: str = field(default="", repr=False)


def account_link(question: AccountQuestion) -> tuple[Link, ServiceAccount | None]:
    """Check that the account exists and has the required annotations; return it with all of its annotations."""
    action = ApiAction(
        verb="get", resource="serviceaccounts", namespace=question.namespace, name=question.name
    )
    path = f"{question.path}/serviceaccounts/{encode_percent(question.name)}"
    found = call_api(question.session, action, path, timeout_seconds=question.timeout_seconds)
    if isinstance(found, ApiProblem):
        words = f"{shlex.quote(question.name)} --namespace {shlex.quote(question.namespace)}"
        cure = f"{question.kubectl} create serviceaccount {words}"
        return _problem_link(LinkName.ACCOUNT, question, found, cure), None
    item = KubernetesObject(
        origin=hide_in_url(question.session.server), kind=ObjectKind.SERVICE_ACCOUNT, value=found
    )
    account = ServiceAccount(uid=item.uid, annotations=item.annotations)
    picked, lacking = pick_annotations(question.attributes, account.annotations or {})
    name = f"{question.namespace}/{question.name}"
    if lacking:
        text = f"{name} lacks the annotation {lacking!r}; the kubelet then does not use the provider"
        command = f"{question.kubectl} annotate serviceaccount {shlex.quote(question.name)}"
        cure = (
            f'{command} --namespace {shlex.quote(question.namespace)} {shlex.quote(lacking)}="${{VALUE:?}}"'
        )
        return Link(
            name=LinkName.ACCOUNT, state=LinkState.BROKEN, text=text, cure=cure, kind=Kind.ABSENT
        ), None
    facts = {f"annotation {key}": value for key, value in picked.items()}
    return Link(
        name=LinkName.ACCOUNT, state=LinkState.OK, text=f"{name} exists", facts={"uid": account.uid, **facts}
    ), account


def find_pod(question: AccountQuestion, name: str) -> BoundTo:
    """Return the pod that the token is bound to; a pod that may not be read is named only."""
    action = ApiAction(verb="get", resource="pods", namespace=question.namespace, name=name)
    path = f"{question.path}/pods/{encode_percent(name)}"
    found = call_api(question.session, action, path, timeout_seconds=question.timeout_seconds)
    if isinstance(found, ApiProblem):
        return BoundTo(name=name, note=str(found))
    metadata, spec = (found.get(part) for part in ("metadata", "spec"))
    fields = spec if isinstance(spec, dict) else {}
    uid = metadata.get("uid", "") if isinstance(metadata, dict) else ""
    account = str(fields.get("serviceAccountName") or "default")
    return BoundTo(
        name=name,
        uid=str(uid),
        node=str(fields.get("nodeName") or ""),
        account=account,
        audiences=token_audiences(fields),
    )


def token_link(question: AccountQuestion, account: ServiceAccount, pod: BoundTo) -> tuple[Link, Issued]:
    """Request a token as a kubelet does, as the session's user."""
    if pod.account and pod.account != question.name:
        text = f"pod {pod.name!r} has the service account {pod.account!r}, not {question.name!r}"
        cure = f"use --service-account {question.namespace}/{pod.account}, or another pod"
        return Link(
            name=LinkName.TOKEN, state=LinkState.BROKEN, text=text, cure=cure, kind=Kind.ABSENT
        ), Issued()
    issued = request_token(
        question.session,
        question.namespace,
        question.name,
        audience=question.audience,
        pod=BoundPod(name=pod.name, uid=pod.uid) if pod.name else None,
        account_uid=account.uid,
        timeout_seconds=question.timeout_seconds,
    )
    if isinstance(issued, ApiProblem):
        return _problem_link(LinkName.TOKEN, question, issued, ""), Issued()
    bound = f"bound to pod {pod.name!r}" if pod.name else "not bound to a pod; bind it with --pod NAME"
    facts = {"note": pod.note} if pod.note else {}
    text = f"the server issues a token for the audience {question.audience!r}, {bound}"
    return Link(name=LinkName.TOKEN, state=LinkState.OK, text=text, facts=facts), Issued(token=issued.token)


def _problem_link(name: LinkName, question: AccountQuestion, problem: ApiProblem, absent_cure: str) -> Link:
    """Return the link of a request that the server refused, with what permits it."""
    cure = ""
    manifests: tuple[dict[str, object], ...] = ()
    if problem.kind is Kind.NOT_FOUND:
        cure = absent_cure
    elif problem.status == _UNAUTHORIZED:
        cure = "the server does not accept your credential; try 'keyferry kube explain' with the same context"
    elif problem.status == _FORBIDDEN:
        cure = f"your user may not permit it to itself: {_APPLY}"
        manifests = user_manifests(question.namespace, question.name, _user(question))
    # A server that fails has not said whether the request is right, and one that refuses the user has said nothing
    # about the account and its kubelets.
    is_silent = problem.status >= _SERVER_ERROR or problem.kind is Kind.REFUSED
    state = LinkState.UNKNOWN if is_silent else LinkState.BROKEN
    return Link(name=name, state=state, text=str(problem), cure=cure, manifests=manifests, kind=problem.kind)


def _user(question: AccountQuestion) -> str:
    return review(question.session, timeout_seconds=question.timeout_seconds).username or _NO_USER


def node_link(question: AccountQuestion, pod: BoundTo) -> Link:
    """Check whether kubelets may request the audience, which newer API servers restrict."""
    found = review_node(
        question.session,
        NodeTokens(name=pod.node, volume_audiences=pod.audiences),
        ServiceAccountRef(namespace=question.namespace, name=question.name, uid=""),
        question.audience,
        timeout_seconds=question.timeout_seconds,
    )
    audience = repr(question.audience)
    text = {
        PermissionReason.VOLUME: f"a volume of pod {pod.name!r} has the audience, so that its kubelet may request it",
        PermissionReason.VERSION: (
            f"Kubernetes {found.version} does not restrict the audiences of kubelets by default"
        ),
        PermissionReason.RBAC: f"RBAC permits kubelets to request the audience {audience}",
        PermissionReason.REFUSED: f"RBAC does not permit kubelets to request the audience {audience}",
        PermissionReason.UNKNOWN: (
            f"whether RBAC permits kubelets to request the audience {audience} is unknown: {found.problem}"
        ),
    }[found.reason]
    manifests = node_manifests((question.audience,), question.name)
    if found.reason is PermissionReason.REFUSED:
        return Link(
            name=LinkName.NODE,
            state=LinkState.BROKEN,
            text=text,
            cure=_APPLY,
            manifests=manifests,
            kind=Kind.REFUSED,
        )
    if found.problem is not None:
        cure = "ask an administrator whether objects like these exist"
        kind = found.problem.kind
        return Link(
            name=LinkName.NODE, state=LinkState.UNKNOWN, text=text, cure=cure, manifests=manifests, kind=kind
        )
    return Link(name=LinkName.NODE, state=LinkState.OK, text=text)


def claims_link(question: AccountQuestion, issued: Issued, pod: BoundTo) -> Link:
    """Check the claims of the token, which the registry's cloud compares with its trust policy."""
    try:
        claims = read_claims(issued.token, is_strict=False)
    except JwtError:
        return Link(
            name=LinkName.CLAIMS,
            state=LinkState.UNKNOWN,
            text="the token is not a JSON web token",
            kind=Kind.CONTENT,
        )
    facts = _facts(claims)
    wrong = _wrong_claim(question, claims, pod)
    if wrong:
        return Link(
            name=LinkName.CLAIMS,
            state=LinkState.BROKEN,
            text=f"the token {wrong}",
            facts=facts,
            kind=Kind.CONTENT,
        )
    text = "issuer, subject and audience are those of a kubelet's token"
    return Link(name=LinkName.CLAIMS, state=LinkState.OK, text=text, facts=facts)


def _wrong_claim(question: AccountQuestion, claims: Mapping[str, object], pod: BoundTo) -> str:
    subject = f"system:serviceaccount:{question.namespace}:{question.name}"
    audiences = claims.get("aud")
    if claims.get("sub") != subject:
        return f"is not of {subject!r}"
    if question.audience not in (audiences if isinstance(audiences, list) else [audiences]):
        return f"is not for the audience {question.audience!r}"
    end = claims.get("exp")
    if isinstance(end, int) and end <= time.time():
        return "has expired by the clock of this machine; compare it with the server's"
    if pod.name and _bound_pod(claims) != pod.name:
        return f"is not bound to pod {pod.name!r}"
    return ""


def _facts(claims: Mapping[str, object]) -> dict[str, object]:
    """Return the claims that a trust policy compares, in the order in which people read them."""
    facts: dict[str, object] = {name: claims[name] for name in ("iss", "sub", "aud") if name in claims}
    end = claims.get("exp")
    if isinstance(end, int):
        facts["exp"] = format_instant(end * _SECOND)
    pod = _bound_pod(claims)
    return {**facts, "pod": pod} if pod else facts


def _bound_pod(claims: Mapping[str, object]) -> str:
    details = claims.get("kubernetes.io")
    pod = details.get("pod") if isinstance(details, dict) else None
    return str(pod.get("name", "")) if isinstance(pod, dict) else ""


# The links that the node and the registry hold: the provider, its plugin's response, the registry.

_ATTRIBUTES = (
    "tokenAttributes: {serviceAccountTokenAudience: AUDIENCE, cacheType: ServiceAccount, "
    "requireServiceAccount: true}"
)


class Matched(Value):
    """The provider that is tried, and the pattern that covers the image."""

    config: CredentialProvider
    pattern: str


def provider_link(providers: Providers, image: ImageName, *, wanted: str = "") -> tuple[Link, Matched | None]:
    """Find the provider that covers the image and receives service account tokens; *wanted* chooses one by name."""
    configs = providers.configs
    index = PatternIndex(
        (owner, each) for owner, config in enumerate(configs) for each in config.match_images or ()
    )
    covering = [
        Matched(config=configs[owner], pattern=pattern) for owner, pattern in index.match(image.repository)
    ]
    chosen = [each for each in covering if not wanted or each.config.name == wanted]
    if not chosen:
        return _no_provider(configs, covering, image, wanted), None
    with_tokens = [each for each in chosen if _audience(each.config)]
    if not with_tokens:
        name = chosen[0].config.name
        text = f"provider {name!r} has no tokenAttributes: the kubelet passes it no service account token"
        cure = f"add this to provider {name!r}, with the audience that it expects: {_ATTRIBUTES}"
        return Link(
            name=LinkName.PROVIDER, state=LinkState.BROKEN, text=text, cure=cure, kind=Kind.ABSENT
        ), None
    return _provider_link(with_tokens[0], covering), with_tokens[0]


def _audience(config: CredentialProvider) -> str:
    attributes = config.token_attributes
    return "" if attributes is None else attributes.service_account_token_audience


def _no_provider(
    configs: tuple[CredentialProvider, ...], covering: list[Matched], image: ImageName, wanted: str
) -> Link:
    names = ", ".join(config.name for config in configs) or "none"
    if wanted and wanted not in {config.name for config in configs}:
        text = f"the config has no provider {wanted!r}, found {names}"
        return Link(name=LinkName.PROVIDER, state=LinkState.BROKEN, text=text, kind=Kind.ABSENT)
    which = f"provider {wanted!r} does not match" if covering or wanted else "no provider matches"
    cure = f"add a pattern such as {registry_of(image.repository)!r} to matchImages of the provider"
    facts = {"providers": names}
    return Link(
        name=LinkName.PROVIDER,
        state=LinkState.BROKEN,
        text=f"{which} the image",
        facts=facts,
        cure=cure,
        kind=Kind.ABSENT,
    )


def _provider_link(matched: Matched, covering: list[Matched]) -> Link:
    config, attributes = matched.config, matched.config.token_attributes
    facts: dict[str, object] = {"pattern": hide_user_info(matched.pattern), "audience": _audience(config)}
    if attributes is not None:
        facts["cacheType"] = attributes.cache_type
    others = [each.config.name for each in covering if each is not matched]
    if others:
        facts["other providers that match"] = others
    return Link(
        name=LinkName.PROVIDER, state=LinkState.OK, text=f"{config.name!r} matches the image", facts=facts
    )


def plugin_link(
    provider: Provider, image: ImageName, pod: Pod, *, trace: str
) -> tuple[Link, Provision | None]:
    """Run the plugin as the kubelet does; *trace* is the command that shows the exchange, if one can."""
    provision = provider.provide(image.repository, pod)
    if provision.error is not None or provision.outcome is not ProvisionOutcome.RAN:
        problem = provision.error
        text = str(problem) if problem is not None else provision.skipped
        cure = f"see the whole exchange with: {trace}" if trace else ""
        return Link(name=LinkName.PLUGIN, state=LinkState.BROKEN, text=text, cure=cure, error=problem), None
    number = len(provision.auth)
    facts: dict[str, object] = {
        "keys": [shown_key(key) for key in provision.auth],
        "cacheKeyType": provision.cache_key_type,
        "seconds": round(provision.seconds or 0.0, 3),
    }
    text = f"{provider.name!r} responds with {number} {'entry' if number == 1 else 'entries'}"
    return Link(name=LinkName.PLUGIN, state=LinkState.OK, text=text, facts=facts), provision


def keys_link(provision: Provision, image: ImageName) -> tuple[Link, tuple[Credential, ...]]:
    """Find the credentials that the kubelet would try, in order."""
    credentials = tuple(lookup_all((provision.keyring,), image.repository))
    if credentials:
        facts = {"keys": [f"{shown_key(each.key)} (user {_user_name(each)})" for each in credentials]}
        number = len(credentials)
        text = f"{number} {'credential matches' if number == 1 else 'credentials match'} the image"
        return Link(name=LinkName.KEYS, state=LinkState.OK, text=text, facts=facts), credentials
    reasons = [_why_not(key, image.repository) for key in provision.auth]
    text = "no key of the response matches the image" if reasons else "the response has no credentials"
    cure = f"a key such as {registry_of(image.repository)!r} in the plugin's response would match"
    facts = {"reasons": reasons} if reasons else {}
    return Link(
        name=LinkName.KEYS, state=LinkState.BROKEN, text=text, facts=facts, cure=cure, kind=Kind.ABSENT
    ), ()


def _user_name(credential: Credential) -> str:
    # A user name may be as secret as a password, if the plugin mixes up the two.
    return repr(credential.username) if len(credential.username) <= _MAX_NAME else MASK


def _why_not(key: str, repository: str) -> str:
    try:
        why = explain_match(normalise_key(key), repository).why
    except MatchError as error:
        why = error.message
    shown = shown_key(key)
    return "a key that is not the name of a registry" if shown == MASK else f"{shown}: {why}"


def registry_link(checked: RegistryCheck) -> Link:
    """Tell what the registry responds to each credential."""
    facts = {"responses": [f"{attempt.who}: {describe_attempt(attempt)}" for attempt in checked.attempts]}
    text = checked.text
    if checked.verdict is PullVerdict.YES:
        return Link(name=LinkName.REGISTRY, state=LinkState.OK, text=text, facts=facts)
    state = LinkState.UNKNOWN if checked.verdict is PullVerdict.UNKNOWN else LinkState.BROKEN
    cure = (
        ""
        if state is LinkState.UNKNOWN
        else "let the role or identity of the account pull from the repository"
    )
    return Link(
        name=LinkName.REGISTRY,
        state=state,
        text=text,
        facts=facts,
        cure=cure,
        kind=checked.kind,
        error=checked.error,
    )
