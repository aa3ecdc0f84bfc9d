"""Options of the cluster plugin: flags, and the environment variables that override them."""

from __future__ import annotations

from collections.abc import Mapping

from keyferry._core.values import Value, field, replace
from keyferry.sdk import ProvideError
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOGINS = (
    "devicecode",
    "interactive",
    "spn",
    "ropc",
    "msi",
    "azurecli",
    "azd",
    "workloadidentity",
    "azurepipelines",
)
_OLD_NAME = ("token-cache-dir",)
FLAGS = (
    Flag(name="login", about=f"how to log in: {', '.join(LOGINS)}", default="devicecode", short="l"),
    Flag(name="server-id", about="application ID of the cluster's server; AKS: 6dae42f8-4368-4678-94ff-3960e28e3630"),
    Flag(name="client-id", about="application ID of the client"),
    Flag(name="tenant-id", about="tenant ID or domain", short="t"),
    Flag(name="environment", about="the cloud", default="AzurePublicCloud", short="e"),
    Flag(name="authority-host", about="https URL of the authority, in place of the cloud's"),
    Flag(name="client-secret", about="spn: client secret; better in AZURE_CLIENT_SECRET, where ps does not show it"),
    Flag(name="client-certificate", about="spn: file with certificate and key, .pfx or PEM"),
    Flag(name="client-certificate-password", about="spn: password of that file; better in the environment"),
    Flag(name="username", about="ropc: user name"),
    Flag(name="password", about="ropc: password; better in AZURE_PASSWORD, where ps does not show it"),
    Flag(name="identity-resource-id", about="msi: resource ID of a user-assigned identity"),
    Flag(name="federated-token-file", about="workloadidentity: file with the token to exchange"),
    Flag(name="azure-pipelines-service-connection-id", about="azurepipelines: ID of the service connection"),
    Flag(name="subscription", about="azurecli: subscription", short="s"),
    Flag(
        name="cache-dir",
        about="devicecode, ropc: folder to cache tokens in; without it none are cached",
        aliases=_OLD_NAME,
    ),
    Flag(name="legacy", about="devicecode, spn: use version 1 of the token endpoint", is_switch=True),
    Flag(name="use-azurerm-env-vars", about="read Terraform's variables, ARM_*", is_switch=True),
    Flag(name="pop-enabled", about="spn, ropc: request a token that is bound to a new key", is_switch=True),
    Flag(name="pop-claims", about="u=HOST[,...]: the host that the bound token is for"),
    Flag(name="timeout", about="time limit, not counting the user's time at device login", default="60s"),
    Flag(name="wait-for-login", about="devicecode: wait even if nobody seems able to read the code", is_switch=True),
    Flag(name="disable-environment-override", about="do not let environment variables override flags", is_switch=True),
    Flag(name="compat", about="behave exactly like kubelogin, quirks included", is_switch=True),
    Flag(name="disable-instance-discovery", is_switch=True, is_ignored=True),
    Flag(name="redirect-url", is_ignored=True),
    Flag(name="login-hint", is_ignored=True),
    *LOG_FLAGS,
)  # fmt: skip


class Options(Value):
    """The login, its target and its identity; *overridden* lists flags that a variable replaced, with the variables."""

    login: str
    server_id: str
    client_id: str = ""
    tenant_id: str = ""
    environment: str = ""
    authority_host: str = ""
    client_secret: str = field(default="", repr=False)
    certificate: str = ""
    certificate_password: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    identity_resource_id: str = ""
    token_file: str = ""
    connection_id: str = ""
    subscription: str = ""
    cache_dir: str = ""
    is_legacy: bool = False
    pop_host: str = ""
    timeout_seconds: float = 60.0
    waits_for_login: bool = False
    overridden: tuple[tuple[str, str], ...] = ()
    is_compat: bool = False

    @property
    def resource(self) -> str:
        """The server as the audience of a token."""
        return self.server_id.rstrip("/").removesuffix("/.default")

    @property
    def scope(self) -> str:
        """The server as a scope."""
        return f"{self.resource}/.default"

    def target(self, scopes: str = "") -> dict[str, str]:
        """Return the field of a token request that names the server; *scopes* are added to its scope."""
        if self.is_legacy:
            return {"resource": self.resource}
        return {"scope": f"{self.scope} {scopes}".rstrip()}


# The flag of each option that is a text.
FLAG_OF = {
    "login": "login",
    "server_id": "server-id",
    "client_id": "client-id",
    "tenant_id": "tenant-id",
    "environment": "environment",
    "authority_host": "authority-host",
    "client_secret": "client-secret",
    "certificate": "client-certificate",
    "certificate_password": "client-certificate-password",
    "username": "username",
    "password": "password",
    "identity_resource_id": "identity-resource-id",
    "token_file": "federated-token-file",
    "connection_id": "azure-pipelines-service-connection-id",
    "subscription": "subscription",
    "cache_dir": "cache-dir",
}
# Later variables take precedence.
_VARIABLES = {
    "client_id": ("AAD_SERVICE_PRINCIPAL_CLIENT_ID", "AZURE_CLIENT_ID"),
    "client_secret": ("AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", "AZURE_CLIENT_SECRET"),
    "certificate": ("AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE", "AZURE_CLIENT_CERTIFICATE_PATH"),
    "certificate_password": (
        "AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE_PASSWORD",
        "AZURE_CLIENT_CERTIFICATE_PASSWORD",
    ),
    "tenant_id": ("AZURE_TENANT_ID",),
}
_TERRAFORM = {
    "client_id": ("ARM_CLIENT_ID",),
    "client_secret": ("ARM_CLIENT_SECRET",),
    "certificate": ("ARM_CLIENT_CERTIFICATE_PATH",),
    "certificate_password": ("ARM_CLIENT_CERTIFICATE_PASSWORD",),
    "tenant_id": ("ARM_TENANT_ID",),
}
_USER = {
    "username": ("AAD_USER_PRINCIPAL_NAME", "AZURE_USERNAME"),
    "password": ("AAD_USER_PRINCIPAL_PASSWORD", "AZURE_PASSWORD"),
}
_WORKLOAD = {
    "client_id": ("AZURE_CLIENT_ID",),
    "token_file": ("AZURE_FEDERATED_TOKEN_FILE",),
    "authority_host": ("AZURE_AUTHORITY_HOST",),
}
_PIPELINES = {
    "client_id": "AZURESUBSCRIPTION_CLIENT_ID",
    "tenant_id": "AZURESUBSCRIPTION_TENANT_ID",
    "connection_id": "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID",
}


def read_options(flags: Flags, environ: Mapping[str, str]) -> Options:
    """Merge flags and environment; raise ProvideError if they are invalid."""
    if flags.words:
        raise ProvideError(f"found {flags.words[0][:80]!r}, which is not a flag", "'--help' lists all flags")
    texts: dict[str, Any] = {name: flags.text(flag) for name, flag in FLAG_OF.items()}
    options = Options(
        **texts,
        is_legacy=flags.is_on("legacy"),
        pop_host=_read_claims(flags),
        timeout_seconds=read_seconds("flag --timeout", flags.text("timeout")),
        waits_for_login=flags.is_on("wait-for-login"),
        is_compat=flags.is_on("compat"),
    )
    if not flags.is_on("disable-environment-override"):
        options = _override(options, flags, environ)
    return _check(options)


def _override(options: Options, flags: Flags, environ: Mapping[str, str]) -> Options:
    options = _apply(options, {"login": ("AAD_LOGIN_METHOD",)}, flags, environ)
    options = _apply(
        options, _TERRAFORM if flags.is_on("use-azurerm-env-vars") else _VARIABLES, flags, environ
    )
    options = _apply(options, _USER, flags, environ)
    if options.login == "workloadidentity":
        options = _apply(options, _WORKLOAD, flags, environ)
    if options.login == "azurepipelines":
        gaps = {name: environ.get(variable, "") for name, variable in _PIPELINES.items()}
        options = replace(
            options, **{name: value for name, value in gaps.items() if not getattr(options, name)}
        )
    try:
        return replace(
            options, timeout_seconds=read_seconds("AZURE_CLI_TIMEOUT", environ.get("AZURE_CLI_TIMEOUT", ""))
        )
    except ProvideError:
        return options


def _apply(
    options: Options, table: Mapping[str, tuple[str, ...]], flags: Flags, environ: Mapping[str, str]
) -> Options:
    for name, variables in table.items():
        for variable in variables:
            value = environ.get(variable)
            # Only upstream treats a variable that is set and empty as a value.
            if value is None or (not value and not options.is_compat):
                continue
            is_news = FLAG_OF[name] in flags.given and value != flags.text(FLAG_OF[name])
            noted = ((FLAG_OF[name], variable),) if is_news else ()
            options = replace(options, **{name: value}, overridden=options.overridden + noted)
    return options


def _read_claims(flags: Flags) -> str:
    """Return the host that a bound token is for: the claim ``u``, the only one in use."""
    text = flags.text("pop-claims")
    if flags.is_on("pop-enabled") != ("pop-claims" in flags.given):
        raise ProvideError("flags --pop-enabled and --pop-claims must be given together")
    if not flags.is_on("pop-enabled"):
        return ""
    pairs = [entry.partition("=") for entry in text.split(",")]
    if not all(name.strip() and mark and value.strip() for name, mark, value in pairs):
        raise ProvideError("flag --pop-claims: expected name=value[,name=value...]")
    claims = {name.strip(): value.strip() for name, _, value in pairs}
    if not claims.get("u"):
        raise ProvideError("flag --pop-claims: u=HOST is missing, which is required")
    return claims["u"]


def _check(options: Options) -> Options:
    if options.login not in LOGINS:
        raise ProvideError(f"login {options.login[:40]!r} is not one of {', '.join(LOGINS)}")
    if not options.resource:
        raise ProvideError(
            "flag --server-id is required",
            "for AKS it is 6dae42f8-4368-4678-94ff-3960e28e3630, in every cloud",
        )
    host = options.authority_host
    if host and (not host.lower().startswith("https://") or (options.is_compat and not host.endswith("/"))):
        raise ProvideError(f"flag --authority-host: {host[:80]!r} is not an https:// URL that ends in '/'")
    return options
