"""Find out why a context works or does not: every step is taken, and what came of it is kept as a value."""

from time import monotonic

from keyferry._core.clock import time_ns
from keyferry._core.values import Value, field, replace
from keyferry.api.meta import format_instant
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.pem import KeyPair, parse_key_pair
from keyferry.clusters.kubeconfig.files import LoadedKubeconfig
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.load import Distrust, check_trust, find_distrust
from keyferry.clusters.plain import request
from keyferry.clusters.review import Review, review
from keyferry.clusters.session import ClusterSession, make_session, uses_plugin
from keyferry.clusters.why.mechanism import Mechanism, find_mechanism
from keyferry.errors import ConfigError, KeyferryError, PolicyError
from keyferry.invoke.executable import clean_path
from keyferry.invoke.kuberc import LoadedKuberc, find_kuberc, load_kuberc
from keyferry.invoke.policy import Permit, PluginPolicy
from keyferry.show.text import span

__all__ = ["Inquiry", "inquire"]

# Statuses that say something about the user; any other about what the server knows.
_REFUSALS = (401, 403)


class Inquiry(Value):
    """What each step gave, in order; ``error`` is the one that ended it, at ``stage``."""

    loaded: LoadedKubeconfig
    config: ClientConfig
    now_ns: int
    is_trusted: bool = False
    kuberc: LoadedKuberc | None = None
    kuberc_path: str = ""
    kuberc_is_default: bool = False
    permit: Permit | None = None
    distrust: Distrust | None = None
    ran: bool = False
    seconds: float = 0.0
    credential: ClusterCredential | None = field(default=None, repr=False)
    key_pair: KeyPair | None = None
    review: Review | None = None
    version_status: int = 0
    stage: str = ""
    error: KeyferryError | None = None

    @property
    def uses_plugin(self) -> bool:
        """Tell whether a plugin is what authenticates the user."""
        return uses_plugin(self.config)

    @property
    def mechanism(self) -> Mechanism:
        """How the user is authenticated."""
        user = self.loaded.config.users.get(self.config.user_name)
        return Mechanism() if user is None else find_mechanism(user, self.config.server)

    @property
    def is_accepted(self) -> bool:
        """Tell whether the server let the user in; it may not know how to say who that is."""
        answer = self.review
        return answer is not None and (not answer.status or 200 <= self.version_status < 300)

    def ending(self, expires_ns: int) -> str:
        """When something ends, or that it had ended, in words."""
        seconds = (expires_ns - self.now_ns) / 1e9
        when = f"ends in {span(seconds)}" if seconds >= 0 else f"ended {span(seconds)} ago"
        return f"{when} ({format_instant(expires_ns)})"


class _Stop(Exception):
    """A step failed, and the ones after it have nothing to go on."""

    def __init__(self, inquiry: Inquiry, stage: str, error: KeyferryError) -> None:
        super().__init__(stage)
        self.inquiry = replace(inquiry, stage=stage, error=error)


def inquire(
    loaded: LoadedKubeconfig,
    config: ClientConfig,
    *,
    trust: bool = False,
    run: bool = True,
    timeout_seconds: float = 60.0,
) -> Inquiry:
    """Go through every step for a resolved context; without *run*, up to the plugin and no further."""
    inquiry = Inquiry(loaded, config, time_ns(), is_trusted=trust)
    try:
        inquiry = _look_at_policy(inquiry)
        inquiry, session = _open(inquiry, timeout_seconds)
        if not run:
            return inquiry
        inquiry = _obtain(inquiry, session)
        return _ask(inquiry, session, timeout_seconds)
    except _Stop as stop:
        return stop.inquiry


def _look_at_policy(inquiry: Inquiry) -> Inquiry:
    """Whether the files are to be trusted, which policy applies, and whether it lets the program run."""
    inquiry = replace(inquiry, distrust=find_distrust(inquiry.config))
    try:
        path, is_explicit = find_kuberc()
        inquiry = replace(inquiry, kuberc_path=path, kuberc_is_default=bool(path) and not is_explicit)
        inquiry = replace(inquiry, kuberc=load_kuberc())
        plugin = inquiry.config.exec
        if plugin is not None and inquiry.uses_plugin:
            permit = _policy(inquiry).decide(clean_path(plugin.command))
            inquiry = replace(inquiry, permit=permit)
    except (ConfigError, PolicyError) as error:
        raise _Stop(inquiry, "policy", error) from None
    return inquiry


def _policy(inquiry: Inquiry) -> PluginPolicy:
    return inquiry.kuberc.policy if inquiry.kuberc is not None else PluginPolicy()


def _open(inquiry: Inquiry, timeout_seconds: float) -> tuple[Inquiry, ClusterSession]:
    try:
        check_trust(inquiry.config, trust=inquiry.is_trusted)
    except PolicyError as error:
        raise _Stop(inquiry, "policy", error) from None
    try:
        session = make_session(
            inquiry.config, policy=_policy(inquiry), timeout_seconds=timeout_seconds, backs_off=False
        )
    except KeyferryError as error:
        raise _Stop(inquiry, "user", error) from None
    return inquiry, session


def _obtain(inquiry: Inquiry, session: ClusterSession) -> Inquiry:
    began = monotonic()
    try:
        credential = session.grant().credential
    except KeyferryError as error:
        failed = replace(inquiry, ran=inquiry.uses_plugin, seconds=monotonic() - began)
        raise _Stop(failed, "plugin" if inquiry.uses_plugin else "user", error) from None
    inquiry = replace(inquiry, ran=inquiry.uses_plugin, seconds=monotonic() - began, credential=credential)
    return replace(inquiry, key_pair=_key_pair(inquiry))


def _key_pair(inquiry: Inquiry) -> KeyPair | None:
    """What is in the certificate, if there is one and it can be read here."""
    config, credential = inquiry.config, inquiry.credential
    certificate = config.client_certificate_data.decode("utf-8", "replace")
    key = config.client_key_data.decode("utf-8", "replace")
    if credential is not None:
        certificate, key = credential.certificate_pem, credential.key_pem
    if not certificate:
        return None
    try:
        return parse_key_pair(certificate, key)
    except KeyferryError:
        return None  # the server's answer, or the lack of one, says more


def _ask(inquiry: Inquiry, session: ClusterSession, timeout_seconds: float) -> Inquiry:
    try:
        answer = review(session, timeout_seconds=timeout_seconds)
        inquiry = replace(inquiry, review=answer)
        if answer.status and answer.status not in _REFUSALS:
            with request(session, "/version", timeout_seconds=timeout_seconds) as reply:
                inquiry = replace(inquiry, version_status=reply.status)
    except KeyferryError as error:
        raise _Stop(inquiry, "server", error) from None
    return inquiry
