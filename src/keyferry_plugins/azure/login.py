"""The ways to log in to a cluster; each turns options into a token."""

from __future__ import annotations

from collections.abc import Mapping
from time import mktime

from keyferry._core.json import read_object
from keyferry.sdk import Deadline, ExecRequest, ProvideError
from keyferry.sdk.process import run_program
from keyferry_plugins.azure.clouds import KNOWN_NAMES, PUBLIC, find_cloud, read_authority
from keyferry_plugins.azure.entra import Application, assertion_fields, read_instant, request_token
from keyferry_plugins.azure.federation import ask_pipelines, exchange_assertion, read_workload_assertion
from keyferry_plugins.azure.managed_identity import Identity, IdentityRequest, request_identity_token
from keyferry_plugins.azure.options import FLAG_OF, Options
from keyferry_plugins.azure.signatures import make_proof, sign_assertion
from keyferry_plugins.azure.user import log_in_as_user
from keyferry_plugins.oauth.answers import Token, text_of

_VARIABLES = {
    "client_id": "AZURE_CLIENT_ID",
    "tenant_id": "AZURE_TENANT_ID",
    "username": "AZURE_USERNAME",
    "connection_id": "AZURESUBSCRIPTION_SERVICE_CONNECTION_ID",
}
_BOUND = ("spn", "ropc")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:/")
_NAME = _PLAIN | frozenset(" ()'&,+@")


def log_in(options: Options, request: ExecRequest, environ: Mapping[str, str], deadline: Deadline) -> Token:
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
    if options.login == "azurecli":
        return _ask_az(options, deadline)
    if options.login == "azd":
        return _ask_azd(options, deadline)
    _need(options, "client_id", "tenant_id")
    application = Application(
        authority=_authority(options, environ), tenant=options.tenant_id, client_id=options.client_id
    )
    if options.login in ("workloadidentity", "azurepipelines"):
        return _as_workload(options, application, environ, deadline)
    if options.login == "spn":
        return _as_application(options, application, deadline)
    if options.login == "ropc":
        _need(options, "username")
    return log_in_as_user(options, application, request, deadline)


def _need(options: Options, *names: str) -> None:
    for name in names:
        if not getattr(options, name):
            raise ProvideError(
                f"login {options.login} needs --{FLAG_OF[name]}, which is not given",
                f"add it to the exec entry's args, or set {_VARIABLES[name]}",
            )


def _authority(options: Options, environ: Mapping[str, str]) -> str:
    if options.authority_host:
        return read_authority(options.authority_host, "--authority-host")
    if options.is_compat and options.environment.strip().lower() == "azurestackcloud":
        return PUBLIC.authority
    cloud = find_cloud(options.environment, environ)
    if cloud is None and not options.is_compat:
        raise ProvideError(
            f"flag --environment: {options.environment[:40]!r} is not one of {KNOWN_NAMES}",
            "or give --authority-host",
        )
    return (cloud or PUBLIC).authority


def _as_machine(options: Options, environ: Mapping[str, str], deadline: Deadline) -> Token:
    resource_id = "" if options.client_id else options.identity_resource_id
    return request_identity_token(
        IdentityRequest(
            resource=options.resource,
            identity=Identity(client_id=options.client_id, resource_id=resource_id),
            environ=environ,
            deadline=deadline,
        )
    )


def _as_workload(
    options: Options, application: Application, environ: Mapping[str, str], deadline: Deadline
) -> Token:
    if options.login == "azurepipelines":
        _need(options, "connection_id")
        assertion = ask_pipelines(options.connection_id, environ, deadline)
    else:
        assertion = read_workload_assertion(options.token_file, environ, deadline)
    return exchange_assertion(application, assertion, options.scope, deadline=deadline)


def _as_application(options: Options, application: Application, deadline: Deadline) -> Token:
    """Return a token for the application itself, by its secret or certificate; bound to a key if that is wanted."""
    if not options.pop_host:
        return _request_as_application(options, application, deadline, {})
    proof = make_proof()
    token = _request_as_application(options, application, deadline, proof.fields)
    return proof.bind(token, options.pop_host)


def _request_as_application(
    options: Options, application: Application, deadline: Deadline, proof: Mapping[str, str]
) -> Token:
    if bool(options.client_secret) == bool(options.certificate):
        found = "both are" if options.certificate else "neither is"
        raise ProvideError(
            f"login spn needs either a client secret or a client certificate, but {found} given",
            "set AZURE_CLIENT_SECRET, or AZURE_CLIENT_CERTIFICATE_PATH",
        )
    fields = {"grant_type": "client_credentials", **options.target(), **proof}
    if options.client_secret:
        fields["client_secret"] = options.client_secret
    else:
        fields |= assertion_fields(
            sign_assertion(
                application,
                options.certificate,
                options.certificate_password,
                is_legacy=options.is_legacy,
            )
        )
    return request_token(
        application,
        fields,
        deadline=deadline,
        secrets=(options.client_secret, options.certificate_password),
        is_legacy=options.is_legacy,
    )


def _ask_az(options: Options, deadline: Deadline) -> Token:
    """Return a token from the Azure CLI."""
    argv = ["az", "account", "get-access-token", "-o", "json"]
    argv += ["--resource", _checked(options.resource, "--server-id", _PLAIN)]
    if options.tenant_id:
        argv += ["--tenant", _checked(options.tenant_id, "--tenant-id", _PLAIN)]
    if options.subscription:
        argv += ["--subscription", _checked(options.subscription, "--subscription", _NAME)]
    return _run(argv, "accessToken", deadline, "log in first: az login")


def _ask_azd(options: Options, deadline: Deadline) -> Token:
    """Return a token from the Azure Developer CLI."""
    argv = ["azd", "auth", "token", "-o", "json", "--no-prompt"]
    argv += ["--scope", _checked(options.scope, "--server-id", _PLAIN)]
    if options.tenant_id:
        argv += ["--tenant-id", _checked(options.tenant_id, "--tenant-id", _PLAIN)]
    return _run(argv, "token", deadline, "log in first: azd auth login")


def _checked(value: str, flag: str, allowed: frozenset[str]) -> str:
    """Return *value* if it is safe as a program's argument; on Windows az is a batch file."""
    if value.startswith("-") or not allowed.issuperset(value):
        raise ProvideError(
            f"flag {flag}: {value[:80]!r} has characters that are not allowed in a program's arguments"
        )
    return value


def _run(argv: list[str], name: str, deadline: Deadline, hint: str) -> Token:
    done = run_program(argv, deadline=deadline)
    if done.status:
        complaint = f": {done.complaint}" if done.complaint else ""
        raise ProvideError(f"{argv[0]} ended with status {done.status}{complaint}", hint)
    return read_program_token(done.stdout, name, argv[0])


def read_program_token(stdout: bytes, name: str, program: str) -> Token:
    """Return the token in the output of az or azd; raise ProvideError, which quotes none of it, if there is none."""
    document = read_object(stdout) or {}
    value = text_of(document, name)
    if not value:
        raise ProvideError(f"{program} wrote no JSON object with {name!r}")
    expires_at = read_instant(document.get("expires_on"))
    if expires_at is None:
        expires_at = read_instant(document.get("expiresOn")) or _read_local(text_of(document, "expiresOn"))
    return Token(value=value, expires_at=expires_at)


def _read_local(text: str) -> float | None:
    """Return a local time such as ``2026-01-31 14:05:09.123456`` in Unix seconds."""
    date, _, clock = text.partition(" ")
    parts = [*date.split("-"), *clock.partition(".")[0].split(":")]
    if len(parts) != 6 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    try:
        year, month, day, hour, minute, second = map(int, parts)
        return mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None
