"""Try the whole chain of a provider that receives service account tokens, link by link, and show what is found."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator

from keyferry._core.host_root import host_root, host_root_notes
from keyferry._core.secrets import printable, redact, secret_values
from keyferry._core.values import Value, replace
from keyferry.api.link_line import VARIABLE, LinkLine, decode_link
from keyferry.errors import EnvironmentProblem, KeyferryError, Kind
from keyferry.explain.links import (
    AccountQuestion,
    BoundTo,
    Link,
    LinkName,
    LinkState,
    Matched,
    account_link,
    claims_link,
    find_pod,
    keys_link,
    node_link,
    plugin_link,
    provider_link,
    registry_link,
    token_link,
)
from keyferry.explain.registry import check_image, image_mirrors
from keyferry.images.answer import Provision
from keyferry.images.keyring import Credential
from keyferry.images.load import ProviderSettings, make_providers
from keyferry.images.lookup import Providers
from keyferry.images.node.discover import discover
from keyferry.images.provider.accounts import (
    Pod,
    ServiceAccount,
    ServiceAccounts,
    StaticAccount,
    pick_annotations,
)
from keyferry.images.reference import parse_image
from keyferry.show.documents import as_yaml, make_document
from keyferry.show.text import Mark, fold, mark, wrap
from keyferry.show.writer import style
from keyferry.workloads.node import choose_node, plugin_environment
from keyferry.workloads.request import Request, Wait

# The account and the token could not be had, because the server gave no answer.
_NO_ANSWER = (Kind.UNREACHABLE, Kind.TIMEOUT)
_MAX_LINKS = 16


class Chain(Value):
    """The links from *account* to *image*; *notes* are about the node's files."""

    image: str
    account: str
    links: tuple[Link, ...]
    notes: tuple[str, ...] = ()

    @property
    def culprit(self) -> Link | None:
        """The first broken link, else the first whose state is unknown; None if all are in order.

        A plugin's report of its own steps counts only if the plugin fails.
        """
        has_failed = any(
            link.name == LinkName.PLUGIN and link.state is LinkState.BROKEN for link in self.links
        )
        counted = [link for link in self.links if has_failed or not link.is_report]
        for state in (LinkState.BROKEN, LinkState.UNKNOWN):
            for link in counted:
                if link.state is state:
                    return link
        return None

    @property
    def state(self) -> LinkState:
        """The state of the whole chain: that of the culprit, else OK."""
        return LinkState.OK if self.culprit is None else self.culprit.state

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        link = self.culprit
        if link is None:
            return f"yes: {self.account} can pull {self.image}"
        if link.state is LinkState.UNKNOWN:
            return f"cannot tell whether {self.account} can pull {self.image}: {link.text}"
        return f"no: {self.account} cannot pull {self.image}: {link.text}"


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
        notes=(*host_root_notes(), *trial.found.notes),
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
        return shlex.join(("kubectl", *self._request.cluster.flags()))

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
        link, provision = plugin_link(
            provider, self.image, pod, trace="" if host_root() else self._trace_command()
        )
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


# The steps that a plugin reports of itself, in lines on standard error.


class LinkReports:
    """Collects the lines of one run; nothing in them is trusted, and known secrets in them are masked."""

    def __init__(self) -> None:
        self._lines: list[LinkLine] = []

    def take(self, stderr: bytes) -> bytes:
        """Keep the links in *stderr*, and return the other lines; a line that is not valid stays there."""
        rest = []
        for line in stderr.splitlines(keepends=True):
            found = decode_link(line.rstrip(b"\r\n"))
            if found is None:
                rest.append(line)
            elif len(self._lines) < _MAX_LINKS:
                self._lines.append(found)
        return b"".join(rest)

    def links(self, known: tuple[str, ...]) -> tuple[Link, ...]:
        """Return the links in the plugin's order; *known* are the secrets of the run."""
        return tuple(_link(line, known) for line in self._lines)


def _link(line: LinkLine, known: tuple[str, ...]) -> Link:
    facts = {name: _fact(value, known) for name, value in line.facts.items()}
    return Link(
        name=f"plugin/{line.name}",
        state=LinkState(line.state),
        text=redact(line.text, known),
        facts=facts,
        cure=redact(line.cure, known),
        is_report=True,
    )


def _fact(value: object, known: tuple[str, ...]) -> object:
    if isinstance(value, list):
        return [redact(str(each), known) for each in value]
    return redact(value, known) if isinstance(value, str) else value


# The chain as a document and as text.


def chain_document(chain: Chain) -> dict[str, object]:
    """Return the chain as a document."""
    culprit = chain.culprit
    return make_document(
        "PluginTrial",
        image=chain.image,
        serviceAccount=chain.account,
        outcome=str(chain.state),
        verdict=chain.verdict,
        firstProblem=None if culprit is None else str(culprit.name),
        links=[_link_document(link) for link in chain.links],
    )


def _link_document(link: Link) -> dict[str, object]:
    return {
        "name": str(link.name),
        "state": str(link.state),
        "text": link.text,
        "facts": dict(link.facts),
        "cure": link.cure,
        "manifests": list(link.manifests),
    }


_MARKS = {
    LinkState.OK: Mark.YES,
    LinkState.BROKEN: Mark.NO,
    LinkState.UNKNOWN: Mark.UNKNOWN,
    LinkState.NOT_REACHED: Mark.SKIPPED,
}

_STYLES = {
    LinkState.OK: "green",
    LinkState.BROKEN: "red",
    LinkState.UNKNOWN: "yellow",
    LinkState.NOT_REACHED: "dim",
}


def chain_lines(chain: Chain) -> Iterator[str]:
    """Yield the verdict, the cure of the first problem, and a paragraph for each link."""
    for line in fold(printable(chain.verdict), rest="  "):
        yield style(line, "bold", _STYLES[chain.state])
    if chain.culprit is not None:
        yield from _cure_lines(chain.culprit)
    yield ""
    for link in chain.links:
        first, *others = wrap(_title(link), link.text)
        yield mark(_MARKS[link.state]) + first[1:]
        yield from others
        for name, value in link.facts.items():
            yield from wrap("", f"{name}: {_shown(value)}")


def _title(link: Link) -> str:
    """Return the name of a link; that of a plugin's own step has a mark, so that it is not taken for another."""
    return f"> {link.name.partition('/')[2]} " if link.is_report else str(link.name)


def _cure_lines(link: Link) -> Iterator[str]:
    if link.cure:
        yield ""
        yield from wrap("cure", link.cure)
    for at, manifest in enumerate(link.manifests):
        yield "---" if at else ""
        yield from as_yaml(manifest).removesuffix("\n").split("\n")


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
