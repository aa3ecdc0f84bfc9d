"""Try the whole chain of a provider that receives service account tokens, link by link."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping

from keyferry._core.jwt_claims import JwtError, read_claims
from keyferry._core.secrets import MASK, secret_values
from keyferry._core.user_info import hide_in_url, hide_user_info
from keyferry._core.values import Value, field, replace
from keyferry._net.forms import encode_percent
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.api.link_line import VARIABLE
from keyferry.api.meta import format_instant
from keyferry.clusters.api_calls import ApiAction, ApiProblem, BoundPod, call_api, request_token, review
from keyferry.clusters.session import ClusterSession
from keyferry.errors import EnvironmentProblem, KeyferryError, Kind, MatchError
from keyferry.explain.chain import Chain, Link, LinkName, LinkReports, LinkState
from keyferry.explain.explanation import PullVerdict
from keyferry.explain.registry import RegistryCheck, check_image, describe_attempt, image_mirrors
from keyferry.images.answer import Provision, ProvisionOutcome
from keyferry.images.keyring import Credential, ServiceAccountRef, lookup_all
from keyferry.images.load import ProviderSettings, make_providers
from keyferry.images.lookup import Providers
from keyferry.images.match import PatternIndex, explain_match, normalise_key
from keyferry.images.node.discover import discover
from keyferry.images.provider.accounts import (
    Pod,
    ServiceAccount,
    ServiceAccounts,
    StaticAccount,
    pick_annotations,
)
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import ImageName, parse_image, registry_of
from keyferry.kit.lab.secrets import shown_key
from keyferry.workloads.node import choose_node, plugin_environment
from keyferry.workloads.objects import KubernetesObject, ObjectKind
from keyferry.workloads.pods import token_audiences
from keyferry.workloads.rbac import node_manifests, user_manifests
from keyferry.workloads.request import Request, Wait
from keyferry.workloads.tokens import NodeTokens, PermissionReason, review_node

# A longer user name may be a secret.
_LONGEST_NAME = 64
# The account and the token could not be had, because the server gave no answer.
_NO_ANSWER = (Kind.UNREACHABLE, Kind.TIMEOUT)


def try_chain(request: Request, *, pod: str = "", provider: str = "", wait: Wait | None = None) -> Chain:
    """Try each link from the service account of *request* to its image until one is broken.

    The token is bound to *pod*, if one is named, and *provider* chooses one of those that match. Errors of a step are
    broken links. Raise ImageNameError, and EnvironmentProblem if no config or no folder of plugins is found, or if the
    service account is not ``NAMESPACE/NAME``.
    """
    if request.contradiction:
        raise EnvironmentProblem(request.contradiction)
    trial = _Trial(request, pod, provider, wait)
    links: list[Link] = []
    is_over = False
    for name, step in trial.steps():
        if is_over:
            links.append(Link(name=name, state=LinkState.NOT_REACHED, text="not reached"))
            continue
        link = _attempt(name, step)
        links += (*trial.take_reports(link), link)
        is_over = _ends(links[-1])
    return Chain(
        image=trial.image.text,
        account=request.service_account,
        links=tuple(links),
        notes=trial.found.notes,
    )


def _attempt(name: LinkName, step: Callable[[], Link]) -> Link:
    try:
        return step()
    except KeyferryError as error:
        error.__traceback__ = None  # its frames may contain the token
        state = LinkState.UNKNOWN if error.kind in _NO_ANSWER else LinkState.BROKEN
        return Link(name=name, state=state, text=str(error), kind=error.kind, error=error)


def _ends(link: Link) -> bool:
    """Return whether the links after this one cannot be tried.

    Kubelets that may not request the token do not stop the trial, because the token is the user's own.
    """
    if link.name in (LinkName.NODE, LinkName.REGISTRY):
        return False
    is_unknown = link.state is LinkState.UNKNOWN and link.name is not LinkName.CLAIMS
    return link.state is LinkState.BROKEN or is_unknown


class _Trial:
    """One trial: each step sets what the next ones need."""

    _matched: Matched
    _question: AccountQuestion
    _account: ServiceAccount
    _provision: Provision | None = None
    _credentials: tuple[Credential, ...] = ()

    def __init__(self, request: Request, pod: str, provider: str, wait: Wait | None) -> None:
        self._request = request
        self._node = choose_node(request, None)
        self.found = discover(request.config, request.bin_dir, node=self._node)
        self.image = parse_image(request.image)
        self._wanted = provider
        self._wait = wait
        self._pod = BoundTo(name=pod)
        self._reports = LinkReports()

    def steps(self) -> tuple[tuple[LinkName, Callable[[], Link]], ...]:
        """Return the steps in order."""
        return (
            (LinkName.PROVIDER, self._find_provider),
            (LinkName.ACCOUNT, self._find_account),
            (LinkName.TOKEN, self._request_token),
            (LinkName.NODE, lambda: node_link(self._question, self._pod)),
            (LinkName.CLAIMS, lambda: claims_link(self._question, self._issued, self._pod)),
            (LinkName.PLUGIN, self._run_plugin),
            (LinkName.KEYS, self._find_keys),
            (LinkName.REGISTRY, self._ask_registry),
        )

    def _open_providers(
        self,
        accounts: ServiceAccounts | None = None,
        listen: Callable[[bytes], bytes] | None = None,
    ) -> Providers:
        """Return the node's providers; *listen* receives the standard error of each run, and returns the rest of it."""
        variables = plugin_environment(self._request, self._node, self.found).variables
        if listen is not None:
            variables = {**(os.environ if variables is None else variables), VARIABLE: "1"}
        settings = ProviderSettings(
            service_accounts=accounts,
            timeout_seconds=self._request.timeout_seconds,
            withhold_env=frozenset(self._request.withhold_env),
            environ=variables,
            listen=listen,
        )
        return make_providers(self.found.config, self.found.bin_dir, settings)

    def _find_provider(self) -> Link:
        link, matched = provider_link(self._open_providers(), self.image, wanted=self._wanted)
        if matched is not None:
            self._matched = matched
        return link

    def _find_account(self) -> Link:
        attributes = self._matched.config.token_attributes
        assert attributes is not None  # noqa: S101 - the provider link checks it
        namespace, _, name = self._request.service_account.rpartition("/")
        self._question = AccountQuestion(
            namespace=namespace,
            name=name,
            attributes=attributes,
            session=self._request.open_session(),
            kubectl=self._kubectl(),
            timeout_seconds=self._request.timeout_seconds,
        )
        link, account = account_link(self._question)
        if account is not None:
            self._account = account
        return link

    def _kubectl(self) -> str:
        """Return how kubectl is called for the same cluster."""
        cluster = self._request.cluster
        options = {"--kubeconfig": cluster.kubeconfig, "--context": cluster.context}
        return shlex.join(
            ("kubectl", *(word for name, value in options.items() if value for word in (name, value)))
        )

    def _request_token(self) -> Link:
        if self._pod.name:
            self._pod = find_pod(self._question, self._pod.name)
        link, self._issued = token_link(self._question, self._account, self._pod)
        return link

    def _run_plugin(self) -> Link:
        accounts = StaticAccount(account=self._account, token_text=self._issued.token)
        providers = self._open_providers(accounts, self._reports.take)
        provider = next(each for each in providers.providers if each.config.name == self._matched.config.name)
        pod = Pod(
            namespace=self._question.namespace,
            name=self._pod.name,
            uid=self._pod.uid,
            service_account_name=self._question.name,
        )
        link, provision = plugin_link(provider, self.image, pod, trace=self._trace_command())
        if provision is not None:
            self._provision = provision
        return link

    def take_reports(self, link: Link) -> tuple[Link, ...]:
        """Return the steps that the plugin reported, if *link* is the one of its run; a broken one has its error."""
        if link.name != LinkName.PLUGIN:
            return ()
        env = self._matched.config.env or ()
        known = [self._issued.token, *secret_values((each.name, each.value) for each in env)]
        if self._provision is not None:
            known += [each.password for each in self._provision.auth.values()]
        reports = self._reports.links(tuple(known))
        return tuple(
            replace(each, error=link.error, cure=each.cure or link.cure)
            if each.state is LinkState.BROKEN
            else each
            for each in reports
        )

    def _find_keys(self) -> Link:
        assert self._provision is not None  # noqa: S101 - the plugin link sets it
        link, self._credentials = keys_link(self._provision, self.image)
        return link

    def _ask_registry(self) -> Link:
        image, options = self.image.text, self._request.registry
        mirrors = image_mirrors(image, options, self._node, self.found, is_here=True)
        return registry_link(check_image(image, self._credentials, options, mirrors, wait=self._wait))

    def _trace_command(self) -> str:
        """Return the commands that record the plugin's run with a token of the same account."""
        question, name = self._question, self._matched.config.name
        account = f"{shlex.quote(question.name)} --namespace {shlex.quote(question.namespace)}"
        token = f"{question.kubectl} create token {account}"
        plugin = f"{self.found.bin_dir}/{name}"
        words = [plugin, self.image.text, "--config", self.found.config, "--provider", name]
        annotations, _ = pick_annotations(question.attributes, self._account.annotations or {})
        words += [word for key, value in annotations.items() for word in ("--annotation", f"{key}={value}")]
        trace = f'keyferry plugin trace {shlex.join(words)} --service-account-token-file "$token"'
        audience = shlex.quote(question.audience)
        return f'token=$(mktemp token.XXXXXX) && {token} --audience {audience} > "$token" && {trace}'


# The links that the cluster holds: the account, its token, the kubelets' permission, the claims.

_UNAUTHORIZED, _FORBIDDEN, _SERVER_ERROR = 401, 403, 500

_SECOND = 1_000_000_000

_NO_USER = "YOUR-USER"

_APPLY = "as an administrator of the cluster, permit it with 'kubectl apply -f -' and these objects"


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
    """Run the plugin as the kubelet does; *trace* is the command that shows the exchange."""
    provision = provider.provide(image.repository, pod)
    if provision.error is not None or provision.outcome is not ProvisionOutcome.RAN:
        problem = provision.error
        text = str(problem) if problem is not None else provision.skipped
        cure = f"see the whole exchange with: {trace}"
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
    return repr(credential.username) if len(credential.username) <= _LONGEST_NAME else MASK


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
