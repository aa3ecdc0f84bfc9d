"""Resolve a context of a loaded kubeconfig to the configuration of a client."""

from __future__ import annotations

from collections.abc import Mapping
from unicodedata import category

from keyferry._core.gotext import go_strerror, quote
from keyferry._core.paths import Path
from keyferry._core.values import Value, field, replace
from keyferry._net.url import parse_request_uri, parse_url
from keyferry.api.clientauthentication.v1 import ClusterInfo
from keyferry.api.kubeconfig.v1 import AuthInfo, ExecConfig
from keyferry.clusters.kubeconfig.choose import Choice, choose
from keyferry.clusters.kubeconfig.files import KubeconfigFile, LoadedKubeconfig, go_read_error, place
from keyferry.clusters.kubeconfig.validate import (
    WITHOUT_IMPERSONATION,
    confirm_usable,
    kubernetes_validation_text,
)
from keyferry.clusters.options import Overrides
from keyferry.errors import KubeconfigError, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The plugin gets the cluster's extension of this name as "config".
EXEC_EXTENSION = "client.authentication.k8s.io/exec"

_GROUP = "client.authentication.k8s.io"
_API_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_REMOVED_API_VERSION = f"{_GROUP}/v1alpha1"
_SUCCESSORS = {
    "gcp": "; use the exec plugin 'gke-gcloud-auth-plugin' instead",
    "azure": "; use the exec plugin 'kubelogin' instead",
    "oidc": "; use an exec plugin such as 'kubectl oidc-login' instead",
}
# The auth provider that kubectl still has.
_IN_KUBECTL = "oidc"
_NO_OVERRIDES = Overrides()
_UNREADABLE = "KF219"
# Larger than any token, certificate or bundle; a kubeconfig may name a device that never ends.
_MAX_FILE_BYTES = 16 << 20


class ClientConfig(Value):
    """The configuration of a client. All files are read already; ``token_file`` must be read again periodically.

    Without https it contains no credentials, as in client-go. ``exec`` is set even if the user has a token or
    certificate, which take precedence over it. ``credential_files`` are the files that the user's token,
    certificate and key are read from. ``token_is_given`` tells that the caller passed the token, which is in no file.
    ``request_timeout_seconds`` is the caller's too. ``unreadable`` are the problems of files that cannot be read, which
    `check_transport` raises.
    """

    server: str
    namespace: str = "default"
    namespace_overridden: bool = False
    tls_server_name: str = ""
    insecure: bool = False
    ca_data: bytes = field(default=b"", repr=False)
    proxy_url: str = field(default="", repr=False)
    uses_environment_proxy: bool = True
    disable_compression: bool = False
    request_timeout_seconds: float | None = None
    bearer_token: str = field(default="", repr=False)
    token_is_given: bool = False
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    client_certificate_data: bytes = field(default=b"", repr=False)
    client_key_data: bytes = field(default=b"", repr=False)
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    impersonate_user_extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    auth_provider: str | None = None
    exec: ExecConfig | None = None
    exec_cluster: ClusterInfo | None = field(default=None, repr=False)
    context: str = ""
    cluster_name: str = ""
    user_name: str = ""
    context_origin: str = ""
    cluster_origin: str = ""
    user_origin: str = ""
    credential_files: tuple[str, ...] = ()
    unreadable: tuple[Problem, ...] = ()
    files: tuple[KubeconfigFile, ...] = field(default=(), repr=False)

    @property
    def uses_plugin(self) -> bool:
        """Whether the exec plugin is used: a token, user name or certificate takes precedence over it."""
        return self.exec is not None and not self._has_static_credential

    @property
    def has_credential(self) -> bool:
        """Whether requests carry a credential of any kind."""
        return self.exec is not None or self._has_static_credential

    @property
    def _has_static_credential(self) -> bool:
        return bool(self.bearer_token or self.token_file or self.username or self.client_certificate_data)


def resolve(loaded: LoadedKubeconfig, overrides: Overrides = _NO_OVERRIDES) -> ClientConfig:
    """Return the client configuration that client-go builds for the chosen context.

    Raises ConfigError for names that do not exist, for entries in use that are not valid, and for a token file
    that cannot be read.
    """
    loaded.raise_for_problems()
    is_blank = bool(loaded.paths) and loaded.config.is_empty
    try:
        choice = choose(loaded.config, overrides)
    except KubeconfigError as error:
        if is_blank:
            raise KubeconfigError((_no_kubeconfig(loaded, ""),), error.kubernetes_text) from None
        raise
    problems = confirm_usable(
        loaded.config,
        choice.context_name,
        (choice.user_name, choice.user),
        (choice.cluster_name, choice.cluster),
        loaded.files,
    )
    if problems:
        shown = tuple(_of_flags(each, choice.user_name, overrides) for each in problems)
        shown = (_no_kubeconfig(loaded, problems[0].code),) if is_blank else shown
        raise KubeconfigError(shown, kubernetes_validation_text(problems))
    config = _describe(choice, overrides, loaded.files)
    url = parse_url(config.server)
    # Any other server, including one without a scheme, is a plain http server and gets no credentials.
    if url is None or url.scheme != "https" or not url.host:
        return config
    return _with_exec(_with_user(_with_tls(config, choice), choice), choice)


def _of_flags(problem: Problem, user: str, overrides: Overrides) -> Problem:
    """Return the problem, without the kubeconfig's file if it is that of a flag."""
    flags = {"--as-uid": overrides.impersonate_uid, "--as-group": overrides.impersonate_groups}
    given = " and ".join(filter(flags.get, flags))
    if problem.code != WITHOUT_IMPERSONATION or not given:
        return problem
    verb = "require" if all(flags.values()) else "requires"
    message = f"{given} {verb} --as, since user {user!r} has no 'as'"
    return Problem("", message, code=problem.code, kubernetes_text=problem.kubernetes_text)


def _no_kubeconfig(loaded: LoadedKubeconfig, code: str) -> Problem:
    """Return the problem of an empty config, with its cause: files that do not exist, or what is in them instead."""
    if loaded.files:
        wrong = "; ".join(f"{file.path} {_describe_blank(file)}" for file in loaded.files)
    else:
        are = "do not exist" if len(loaded.paths) > 1 else "does not exist"
        wrong = f"{' and '.join(loaded.paths)} {are}"
    message = f"found no kubeconfig: {wrong}; give one with --kubeconfig PATH or in KUBECONFIG"
    return Problem("", message, code=code)


def _describe_blank(file: KubeconfigFile) -> str:
    value = None if file.document is None else file.document.value
    if not value:
        return "is empty"
    if isinstance(value, dict) and "auths" in value:
        return "is a docker config"
    return "has no clusters, contexts and users"


def check_transport(config: ClientConfig) -> None:
    """Raise ConfigError for problems that client-go reports only when it creates the transport."""
    problems = (*config.unreadable, *_judge_api_version(config), *_judge_auth_provider(config))
    if problems:
        raise KubeconfigError(problems)


def clean_install_hint(text: str) -> str:
    """Return *text* with characters that could control a terminal written as ``U+001B``."""
    return "".join(char if _is_harmless(char) else f"U+{ord(char):04X}" for char in text)


def _is_harmless(char: str) -> bool:
    return category(char)[0] in "LMNPSZ" or char in "\t\n\v\f\r"


def _describe(choice: Choice, overrides: Overrides, files: tuple[KubeconfigFile, ...]) -> ClientConfig:
    cluster, user = choice.cluster, choice.user
    return ClientConfig(
        server=_canonical_server(cluster.server),
        namespace=choice.context.namespace or "default",
        namespace_overridden=bool(overrides.namespace),
        proxy_url=str(parse_url(cluster.proxy_url) or ""),
        disable_compression=cluster.disable_compression,
        request_timeout_seconds=overrides.request_timeout_seconds,
        token_is_given=bool(overrides.token),
        context=choice.context_name,
        cluster_name=choice.cluster_name,
        user_name=choice.user_name,
        context_origin=choice.context.origin,
        cluster_origin=cluster.origin,
        user_origin=user.origin,
        files=files,
        **_impersonation(user),
    )


def _impersonation(user: AuthInfo) -> dict[str, Any]:
    if not user.impersonate:
        return {}
    return {
        "impersonate": user.impersonate,
        "impersonate_uid": user.impersonate_uid,
        "impersonate_groups": user.impersonate_groups,
        "impersonate_user_extra": user.impersonate_user_extra,
    }


def _canonical_server(server: str) -> str:
    """Return *server* without its query if it has a path, as client-go does."""
    url = parse_request_uri(server)
    if url is None or url.opaque or len(url.path) <= 1:
        return server
    return str(replace(url, query=None if url.query else url.query))


def _with_tls(config: ClientConfig, choice: Choice) -> ClientConfig:
    cluster, plugin = choice.cluster, choice.user.exec
    data, problem = _read(cluster.certificate_authority, cluster.certificate_authority_data)
    if problem is not None and plugin is not None and plugin.provide_cluster_info:
        text = f"failed to load CA bundle for execProvider: {problem.kubernetes_text}"
        problem = problem.changed(kubernetes_text=text)
    return replace(
        config,
        tls_server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
        ca_data=data,
        unreadable=_at_cluster(config, ("certificate-authority",), problem),
    )


def _with_user(config: ClientConfig, choice: Choice) -> ClientConfig:
    user = choice.user
    token = user.token
    if user.token_file and not token:
        data, problem = _read(user.token_file)
        if problem is not None:
            raise KubeconfigError(_at_user(config, ("tokenFile",), problem))
        token = data.decode("utf-8", "surrogateescape")
    config = replace(
        config,
        bearer_token=token,
        token_file=user.token_file,
        username=user.username,
        password=user.password,
        auth_provider=user.auth_provider,
        credential_files=(user.token_file,) if user.token_file else (),
    )
    has_certificate = user.client_certificate or user.client_certificate_data
    return _with_certificate(config, user) if has_certificate else config


def _with_certificate(config: ClientConfig, user: AuthInfo) -> ClientConfig:
    certificate, no_certificate = _read(user.client_certificate, user.client_certificate_data)
    key, no_key = _read(user.client_key, user.client_key_data)
    unreadable = _at_user(config, ("client-certificate",), no_certificate)
    unreadable += _at_user(config, ("client-key",), no_key)
    files = filter(None, (user.client_certificate, user.client_key))
    return replace(
        config,
        client_certificate_data=certificate,
        client_key_data=key,
        credential_files=(*config.credential_files, *files),
        unreadable=config.unreadable + unreadable,
    )


def _with_exec(config: ClientConfig, choice: Choice) -> ClientConfig:
    plugin = choice.user.exec
    if plugin is None:
        return config
    extension = choice.cluster.extensions.get(EXEC_EXTENSION, "null")
    cluster = ClusterInfo(
        server=config.server,
        tls_server_name=config.tls_server_name,
        insecure_skip_tls_verify=config.insecure,
        certificate_authority_data=config.ca_data,
        proxy_url=config.proxy_url,
        disable_compression=config.disable_compression,
        config=None if extension == "null" else extension,
    )
    plugin = replace(plugin, install_hint=clean_install_hint(plugin.install_hint))
    return replace(config, exec=plugin, exec_cluster=cluster)


def _read(path: str, data: bytes = b"") -> tuple[bytes, Problem | None]:
    """Return the content of a file, or the problem of reading it; *data*, if not empty, replaces the file."""
    if data or not path:
        return data, None
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        message = f"{path!r} cannot be read: {go_strerror(error)}"
        return b"", Problem("", message, code=_UNREADABLE, kubernetes_text=go_read_error(path, error))
    if len(data) > _MAX_FILE_BYTES:
        return b"", Problem("", f"{path!r} is larger than {_MAX_FILE_BYTES} bytes", code=_UNREADABLE)
    return data, None


def _at_user(config: ClientConfig, at: Path, problem: Problem | None) -> tuple[Problem, ...]:
    entry = ("users", config.user_name)
    return () if problem is None else (place(config.files, config.user_origin, entry, at, problem),)


def _at_cluster(config: ClientConfig, at: Path, problem: Problem | None) -> tuple[Problem, ...]:
    entry = ("clusters", config.cluster_name)
    return () if problem is None else (place(config.files, config.cluster_origin, entry, at, problem),)


def judge_api_version(plugin: ExecConfig) -> Problem | None:
    """Return client-go's problem with a plugin's version of the protocol, without its position; None if it is known."""
    found = plugin.api_version
    if found in _API_VERSIONS:
        return None
    message = (
        f"{found!r} is not a version of the plugin protocol, expected {' or '.join(map(repr, _API_VERSIONS))}"
    )
    if found == _REMOVED_API_VERSION:
        message = (
            f"{found!r} was removed from Kubernetes: use {_API_VERSIONS[0]!r} if the plugin supports it, "
            "and set interactiveMode to 'Never', 'IfAvailable' or 'Always'"
        )
    text = f"exec plugin: invalid apiVersion {quote(found)}"
    return Problem("", message, code="KF228", kubernetes_text=text)


def _judge_api_version(config: ClientConfig) -> tuple[Problem, ...]:
    problem = judge_api_version(config.exec) if config.exec else None
    return _at_user(config, ("exec", "apiVersion"), problem)


def _judge_auth_provider(config: ClientConfig) -> tuple[Problem, ...]:
    name = config.auth_provider
    if name is None:
        return ()
    what = (
        "only kubectl still has this auth provider"
        if name == _IN_KUBECTL
        else "auth providers are not supported"
    )
    message = f"{what}, found {name!r}{_SUCCESSORS.get(name, '')}"
    text = f"no Auth Provider found for name {quote(name)}"
    code = "KF285" if name == _IN_KUBECTL else "KF229"
    problem = Problem("", message, code=code, kubernetes_text=text)
    return _at_user(config, ("auth-provider",), problem)
