"""The ways to log in to a cluster; each turns options into a token."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.azure.entra import Application
from keyferry_plugins.azure.options import FLAG_OF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Deadline, ExecRequest
    from keyferry_plugins.azure.options import Options
    from keyferry_plugins.azure.tokens import Token

    Environ = Mapping[str, str]

__all__ = ["log_in"]

_VARIABLES = {
    "client_id": "AZURE_CLIENT_ID",
    "tenant_id": "AZURE_TENANT_ID",
    "username": "AZURE_USERNAME",
    "connection_id": "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID",
}
_BOUND = ("spn", "ropc")


def log_in(options: Options, request: ExecRequest, environ: Environ, deadline: Deadline) -> Token:
    """Return a token for the cluster's server, by the login that the options select."""
    if options.pop_host and options.login not in _BOUND:
        raise ProvideError(f"--pop-enabled is for login {' and '.join(_BOUND)}, not {options.login}")
    if options.login == "interactive":
        raise ProvideError(
            "login interactive needs a browser on this machine, and is not supported",
            "use --login devicecode, where the browser may be anywhere",
        )
    if options.login == "msi":
        return _as_machine(options, environ, deadline)
    if options.login in ("azurecli", "azd"):
        from keyferry_plugins.azure.programs import ask_az, ask_azd

        return (ask_az if options.login == "azurecli" else ask_azd)(options, deadline)
    application = _application(options, environ)
    if options.login in ("workloadidentity", "azurepipelines"):
        return _as_workload(options, application, environ, deadline)
    if options.login == "spn":
        return _as_application(options, application, deadline)
    return _as_user(options, application, request, deadline)


def _application(options: Options, environ: Environ) -> Application:
    _need(options, "client_id", "tenant_id")
    return Application(_authority(options, environ), options.tenant_id, options.client_id)


def _authority(options: Options, environ: Environ) -> str:
    from keyferry_plugins.azure.clouds import KNOWN_NAMES, PUBLIC, find_cloud, read_authority

    if options.authority_host:
        return read_authority(options.authority_host, "--authority-host")
    if options.compat and options.environment.strip().lower() == "azurestackcloud":
        return PUBLIC.authority
    cloud = find_cloud(options.environment, environ)
    if cloud is None and not options.compat:
        raise ProvideError(
            f"flag --environment: {options.environment[:40]!r} is not one of {KNOWN_NAMES}",
            "or give --authority-host",
        )
    return (cloud or PUBLIC).authority


def _need(options: Options, *names: str) -> None:
    for name in names:
        if not getattr(options, name):
            variable = _VARIABLES[name]
            raise ProvideError(
                f"login {options.login} needs --{FLAG_OF[name]}, which is not given",
                f"add it to the exec entry's args, or set {variable}",
            )


def _as_machine(options: Options, environ: Environ, deadline: Deadline) -> Token:
    from keyferry_plugins.azure.managed_identity import Identity, IdentityRequest, request_identity_token

    resource_id = "" if options.client_id else options.identity_resource_id
    identity = Identity(options.client_id, resource_id)
    return request_identity_token(IdentityRequest(options.resource, identity, environ, deadline))


def _as_workload(options: Options, application: Application, environ: Environ, deadline: Deadline) -> Token:
    from keyferry_plugins.azure.federation import exchange_assertion
    from keyferry_plugins.azure.workload import ask_pipelines, read_workload_assertion

    if options.login == "azurepipelines":
        _need(options, "connection_id")
        assertion = ask_pipelines(options.connection_id, environ, deadline)
    else:
        assertion = read_workload_assertion(options, environ, deadline)
    return exchange_assertion(application, assertion, options.scope, deadline=deadline)


def _as_application(options: Options, application: Application, deadline: Deadline) -> Token:
    from keyferry_plugins.azure.service_principal import log_in_as_application

    if not options.pop_host:
        return log_in_as_application(options, application, deadline, {})
    from keyferry._core.values import replace
    from keyferry_plugins.azure.pop import make_proof

    proof = make_proof()
    token = log_in_as_application(options, application, deadline, proof.fields)
    return replace(token, access_token=proof.wrap(token.access_token, options.pop_host))


def _as_user(options: Options, application: Application, request: ExecRequest, deadline: Deadline) -> Token:
    from keyferry_plugins.azure.user import log_in_as_user

    if options.login == "ropc":
        _need(options, "username")
    return log_in_as_user(options, application, request, deadline)
