"""Try the whole chain of a provider that receives service account tokens, link by link."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from keyferry._core.secrets import secret_values
from keyferry._core.values import Value, replace
from keyferry.clusters.session import ClusterSession
from keyferry.errors import KeyferryError, Kind
from keyferry.explain.account_links import (
    AccountQuestion,
    BoundTo,
    account_link,
    claims_link,
    find_pod,
    node_link,
    token_link,
)
from keyferry.explain.chain import Chain, Link, LinkName, LinkState
from keyferry.explain.link_reports import LinkReports
from keyferry.explain.plugin_links import Matched, keys_link, plugin_link, provider_link, registry_link
from keyferry.explain.registry import RegistryCheck
from keyferry.images.answer import Provision
from keyferry.images.keyring import Credential
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import (
    Pod,
    ServiceAccount,
    ServiceAccounts,
    StaticAccount,
    pick_annotations,
)
from keyferry.images.reference import ImageName

__all__ = ["TrialInput", "TrialTools", "try_chain"]

# The account and the token could not be had, because the server gave no answer.
_NO_ANSWER = (Kind.UNREACHABLE, Kind.TIMEOUT)


class TrialInput(Value):
    """What is tried: an image for an account, as the pod *pod*, with the provider *provider* if one is chosen."""

    image: ImageName
    namespace: str
    account: str
    pod: str = ""
    provider: str = ""
    config: str = ""
    bin_dir: str = ""
    kubectl: str = "kubectl"
    timeout_seconds: float = 60.0


class TrialTools(Value):
    """What the chain is tried with: the node's providers, a session of the cluster, and requests to the registry.

    The second argument of *open_providers* receives the standard error of each run, and returns what is left of it.
    """

    open_providers: Callable[[ServiceAccounts | None, Callable[[bytes], bytes] | None], Providers]
    open_session: Callable[[], ClusterSession]
    check_registry: Callable[[Sequence[Credential]], RegistryCheck]


def try_chain(asked: TrialInput, tools: TrialTools) -> Chain:
    """Try each link until one is broken; errors of the library become broken links."""
    trial = _Trial(asked, tools)
    links: list[Link] = []
    is_over = False
    for name, step in trial.steps():
        if is_over:
            links.append(Link(name=name, state=LinkState.NOT_REACHED, text="not reached"))
            continue
        link = _attempt(name, step)
        links += (*trial.take_reports(link), link)
        is_over = _ends(links[-1])
    return Chain(image=asked.image.text, account=f"{asked.namespace}/{asked.account}", links=tuple(links))


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

    def __init__(self, asked: TrialInput, tools: TrialTools) -> None:
        self._asked = asked
        self._tools = tools
        self._pod = BoundTo(name=asked.pod)
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
            (LinkName.REGISTRY, lambda: registry_link(lambda: self._tools.check_registry(self._credentials))),
        )

    def _find_provider(self) -> Link:
        providers = self._tools.open_providers(None, None)
        link, matched = provider_link(providers, self._asked.image, wanted=self._asked.provider)
        if matched is not None:
            self._matched = matched
        return link

    def _find_account(self) -> Link:
        asked, attributes = self._asked, self._matched.config.token_attributes
        assert attributes is not None  # noqa: S101 - the provider link checks it
        self._question = AccountQuestion(
            namespace=asked.namespace,
            name=asked.account,
            attributes=attributes,
            session=self._tools.open_session(),
            kubectl=asked.kubectl,
            timeout_seconds=asked.timeout_seconds,
        )
        link, account = account_link(self._question)
        if account is not None:
            self._account = account
        return link

    def _request_token(self) -> Link:
        if self._asked.pod:
            self._pod = find_pod(self._question, self._asked.pod)
        link, self._issued = token_link(self._question, self._account, self._pod)
        return link

    def _run_plugin(self) -> Link:
        asked = self._asked
        accounts = StaticAccount(account=self._account, token_text=self._issued.token)
        providers = self._tools.open_providers(accounts, self._reports.take)
        provider = next(each for each in providers.providers if each.config.name == self._matched.config.name)
        pod = Pod(
            namespace=asked.namespace,
            name=self._pod.name,
            uid=self._pod.uid,
            service_account_name=asked.account,
        )
        link, provision = plugin_link(provider, asked.image, pod, trace=self._trace_command())
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
        link, self._credentials = keys_link(self._provision, self._asked.image)
        return link

    def _trace_command(self) -> str:
        """Return the commands that record the plugin's run with a token of the same account."""
        asked, name = self._asked, self._matched.config.name
        token = f"{asked.kubectl} create token {shlex.quote(asked.account)} --namespace {shlex.quote(asked.namespace)}"
        audience = shlex.quote(self._question.audience)
        words = [f"{asked.bin_dir}/{name}", asked.image.text, "--config", asked.config, "--provider", name]
        annotations, _ = pick_annotations(self._question.attributes, self._account.annotations or {})
        words += [word for key, value in annotations.items() for word in ("--annotation", f"{key}={value}")]
        trace = f'keyferry plugin trace {shlex.join(words)} --service-account-token-file "$token"'
        return f'token=$(mktemp token.XXXXXX) && {token} --audience {audience} > "$token" && {trace}'
