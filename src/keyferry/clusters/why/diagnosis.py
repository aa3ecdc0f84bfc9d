"""Diagnose a context: take every step of a request and keep the results as a value."""

from __future__ import annotations

from time import monotonic

from keyferry._core.clock import time_ns
from keyferry._core.reasons import ReasonStage
from keyferry._core.secrets import secret_arguments, secret_values, stderr_tail
from keyferry._core.values import Value, field, replace
from keyferry.api.meta import format_instant
from keyferry.clusters.access import ClusterAccess, Grant
from keyferry.clusters.api_calls import Review, read_refusal, review
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.pem import KeyPair, parse_key_pair
from keyferry.clusters.auth.runner import ALWAYS
from keyferry.clusters.kubeconfig.files import LoadedKubeconfig
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.kubeconfig.trust import Distrust, check_trust, find_distrust
from keyferry.clusters.profile_access import ProfileChoice, ResolvedProfile
from keyferry.clusters.request import request
from keyferry.clusters.session import ClusterSession, PluginSettings, make_session
from keyferry.clusters.why.mechanism import Mechanism, find_mechanism
from keyferry.errors import ClusterAuthError, ConfigError, KeyferryError, PluginError, PolicyError
from keyferry.invoke.executable import clean_path
from keyferry.invoke.kuberc import LoadedKuberc, find_kuberc, load_kuberc
from keyferry.invoke.policy import Permit, PluginPolicy
from keyferry.invoke.run import Tail
from keyferry.show.text import duration_text

# Statuses that concern the user; any other one concerns the API of the server.
_REFUSALS = (401, 403)


class Renewal(Value):
    """The second run of the plugin, after a 401 response to its first credential: another credential, or an error."""

    credential: ClusterCredential | None = field(default=None, repr=False)
    error: KeyferryError | None = None


class Diagnosis(Value):
    """The results of all steps in order; ``error`` is the one that ended the diagnosis, at ``stage``.

    ``choice`` is how the plugin was chosen for a ClusterProfile; a context has none.
    """

    loaded: LoadedKubeconfig
    config: ClientConfig
    now_ns: int
    choice: ProfileChoice | None = None
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
    stderr_tail: str = ""
    renewal: Renewal | None = None
    review: Review | None = None
    version: Review | None = None  # the response for /version, which is requested if there is no review
    stage: ReasonStage | None = None
    error: KeyferryError | None = None

    @property
    def subject(self) -> str:
        """What is diagnosed: a context, or a ClusterProfile."""
        choice = self.choice
        return f"context {self.config.context!r}" if choice is None else f"ClusterProfile {choice.profile!r}"

    @property
    def owner(self) -> str:
        """The entry of a file that has the credential or the plugin: a user, or a provider."""
        what = "user" if self.choice is None else "provider"
        return f"{what} {self.config.user_name!r}"

    @property
    def server_entry(self) -> str:
        """The entry that has the server: a cluster of a file, or a ClusterProfile."""
        config = self.config
        return (
            f"cluster {config.cluster_name!r} in {config.cluster_origin}"
            if self.choice is None
            else self.subject
        )

    @property
    def uses_plugin(self) -> bool:
        """Whether a plugin authenticates the user."""
        return self.config.uses_plugin

    @property
    def needs_terminal(self) -> bool:
        """Whether the plugin is not run without a terminal; others are diagnosed without one."""
        return self.config.exec is not None and self.config.exec.interactive_mode == ALWAYS

    @property
    def mechanism(self) -> Mechanism:
        """The authentication mechanism of the user."""
        user = self.loaded.config.users.get(self.config.user_name)
        return Mechanism() if user is None else find_mechanism(user, self.config.server)

    @property
    def is_accepted(self) -> bool:
        """Whether the server accepted the user, even if it does not support reviews."""
        answer = self.review
        if answer is None or not answer.status:
            return answer is not None
        return self.version is not None and 200 <= self.version.status < 300

    @property
    def last_response(self) -> Review | None:
        """The server's last response, which decides."""
        return self.version or self.review

    @property
    def last_credential(self) -> ClusterCredential | None:
        """The credential that the last response is about."""
        renewed = self.renewal.credential if self.renewal is not None else None
        return renewed or self.credential

    @property
    def is_expired(self) -> bool:
        """Whether the credential had ended already when the plugin gave it."""
        credential = self.last_credential
        expires_ns = credential.expires_ns if credential is not None else None
        return expires_ns is not None and expires_ns < self.now_ns

    def ending(self, expires_ns: int) -> str:
        """Return when an expiry is or was, such as ``ends in 5m (2026-01-01T00:00:00Z)``."""
        seconds = (expires_ns - self.now_ns) / 1e9
        when = f"ends in {duration_text(seconds)}" if seconds >= 0 else f"ended {duration_text(seconds)} ago"
        return f"{when} ({format_instant(expires_ns)})"


class _Stop(Exception):
    """A failed step, which ends the diagnosis."""

    def __init__(self, diagnosis: Diagnosis, stage: ReasonStage, error: KeyferryError) -> None:
        super().__init__(stage)
        self.diagnosis = replace(diagnosis, stage=stage, error=error)


def diagnose_profile(
    found: ResolvedProfile, *, trust: bool = False, run: bool = True, timeout_seconds: float = 60.0
) -> Diagnosis:
    """Take every step for a ClusterProfile, as ``diagnose`` does for a context."""
    (file,) = found.config.files
    loaded = LoadedKubeconfig(config=file.config, files=found.config.files, paths=(file.path,))
    return diagnose(loaded, found.config, found.choice, trust=trust, run=run, timeout_seconds=timeout_seconds)


def diagnose(
    loaded: LoadedKubeconfig,
    config: ClientConfig,
    choice: ProfileChoice | None = None,
    *,
    trust: bool = False,
    run: bool = True,
    timeout_seconds: float = 60.0,
) -> Diagnosis:
    """Take every step for a resolved context; without *run*, stop before the plugin and the server.

    The plugin gets the terminal only if it does not run without one.
    """
    diagnosis = Diagnosis(loaded=loaded, config=config, choice=choice, now_ns=time_ns(), is_trusted=trust)
    tail = Tail()
    try:
        diagnosis = _look_at_policy(diagnosis)
        diagnosis, session = _open(diagnosis, timeout_seconds, tail)
        if not run:
            return diagnosis
        diagnosis = _obtain(diagnosis, session)
        diagnosis = _ask(diagnosis, session, timeout_seconds)
    except _Stop as stop:
        diagnosis = stop.diagnosis
    return replace(diagnosis, stderr_tail=stderr_tail(tail.whole_lines, _secrets(diagnosis)))


def _secrets(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return the secrets that the plugin knows from the kubeconfig, and those that it answered with."""
    plugin = diagnosis.config.exec
    known = secret_arguments(plugin.args or ()) if plugin is not None else ()
    if plugin is not None:
        known += secret_values((variable.name, variable.value) for variable in plugin.env)
    for credential in (diagnosis.credential, diagnosis.last_credential):
        if credential is not None:
            known += (credential.token, credential.key_pem)
    return known


def _look_at_policy(diagnosis: Diagnosis) -> Diagnosis:
    """Add whether the files are trusted, which policy applies, and whether it permits the program."""
    diagnosis = replace(diagnosis, distrust=find_distrust(diagnosis.config))
    try:
        path, is_explicit = find_kuberc()
        diagnosis = replace(diagnosis, kuberc_path=path, kuberc_is_default=bool(path) and not is_explicit)
        diagnosis = replace(diagnosis, kuberc=load_kuberc())
        plugin = diagnosis.config.exec
        if plugin is not None and diagnosis.uses_plugin:
            permit = _policy(diagnosis).decide(clean_path(plugin.command))
            diagnosis = replace(diagnosis, permit=permit)
    except (ConfigError, PolicyError) as error:
        raise _Stop(diagnosis, ReasonStage.POLICY, error) from None
    return diagnosis


def _policy(diagnosis: Diagnosis) -> PluginPolicy:
    return diagnosis.kuberc.policy if diagnosis.kuberc is not None else PluginPolicy()


def _open(diagnosis: Diagnosis, timeout_seconds: float, tail: Tail) -> tuple[Diagnosis, ClusterSession]:
    try:
        check_trust(diagnosis.config, trust=diagnosis.is_trusted)
    except PolicyError as error:
        raise _Stop(diagnosis, ReasonStage.POLICY, error) from None
    try:
        settings = PluginSettings(
            policy=_policy(diagnosis),
            timeout_seconds=timeout_seconds,
            stdin_unavailable=not diagnosis.needs_terminal,
            backs_off=False,
            stderr_tail=tail,
        )
        session = make_session(diagnosis.config, settings)
    except KeyferryError as error:
        raise _Stop(diagnosis, ReasonStage.USER, error) from None
    return diagnosis, session


def _obtain(diagnosis: Diagnosis, session: ClusterSession) -> Diagnosis:
    began = monotonic()
    try:
        credential = session.grant().credential
    except KeyferryError as error:
        failed = replace(diagnosis, ran=diagnosis.uses_plugin, seconds=monotonic() - began)
        raise _Stop(
            failed, ReasonStage.PLUGIN if diagnosis.uses_plugin else ReasonStage.USER, error
        ) from None
    diagnosis = replace(
        diagnosis, ran=diagnosis.uses_plugin, seconds=monotonic() - began, credential=credential
    )
    return replace(diagnosis, key_pair=_key_pair(diagnosis))


def _key_pair(diagnosis: Diagnosis) -> KeyPair | None:
    """Return the properties of the client certificate; None if there is none or it cannot be parsed."""
    config, credential = diagnosis.config, diagnosis.credential
    certificate = config.client_certificate_data.decode("utf-8", "replace")
    key = config.client_key_data.decode("utf-8", "replace")
    if credential is not None:
        certificate, key = credential.certificate_pem, credential.key_pem
    if not certificate:
        return None
    try:
        return parse_key_pair(certificate, key)
    except KeyferryError:
        return None  # the error of the request is more useful


class _WatchedAccess(ClusterAccess):
    """Access that keeps the result of the run after a 401 response."""

    renewal: Renewal | None = None

    def renew(self, refused: Grant) -> Grant | None:
        """Return a new grant after a 401 response, and keep it or the error of the plugin."""
        renewed = super().renew(refused)
        if self.authenticator is not None:
            credential = renewed.credential if renewed is not None else None
            self.renewal = Renewal(credential=credential, error=self.authenticator.last_error)
        return renewed


def _ask(diagnosis: Diagnosis, session: ClusterSession, timeout_seconds: float) -> Diagnosis:
    access = _WatchedAccess(session.config, session.authenticator)
    try:
        answer = review(access, timeout_seconds=timeout_seconds)
        diagnosis = replace(diagnosis, review=answer, renewal=access.renewal)
        if answer.status and answer.status not in _REFUSALS:
            with request(access, "/version", timeout_seconds=timeout_seconds) as reply:
                version = Review(status=reply.status) if reply.is_success else read_refusal(reply)
            diagnosis = replace(diagnosis, version=version, renewal=access.renewal)
    except KeyferryError as error:
        # A credential that has ended is replaced for each request.
        is_plugins = isinstance(error, ClusterAuthError) and isinstance(error.underlying, PluginError)
        stage = ReasonStage.PLUGIN if is_plugins else ReasonStage.SERVER
        raise _Stop(replace(diagnosis, renewal=access.renewal), stage, error) from None
    return diagnosis
