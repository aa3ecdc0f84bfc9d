"""keyferry-eks: tokens for Amazon EKS clusters, with the arguments of the AWS CLI and aws-iam-authenticator."""

from __future__ import annotations

import os
from collections.abc import Mapping

from keyferry._core.json import dumps, read_object
from keyferry._net.http_errors import split_url
from keyferry.api.meta import format_time
from keyferry.sdk import Deadline, ExecRequest, ExecResponse, ProvideError, ask, tell
from keyferry.sdk.cluster import V1, V1BETA1, VARIABLE, read_exec_request, respond_cluster
from keyferry.sdk.files import Lock
from keyferry.sdk.flags import read_flags, read_seconds
from keyferry.sdk.stdio import deliver, program_name
from keyferry_plugins.aws.chain import BOTOCORE, GO, find_credentials
from keyferry_plugins.aws.eks_options import CLI, FLAGS, Options, read_options
from keyferry_plugins.aws.eks_token import LIFETIME_SECONDS, check_token, is_sts_host, make_token
from keyferry_plugins.aws.endpoints import (
    GLOBAL_REGION,
    LEGACY_STS_REGIONS,
    PUBLIC_REGION,
    STS,
    find_endpoint,
    standard_host,
)
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.oauth.answers import number_of, object_of
from keyferry_plugins.oauth.store import digest_of, load_document, save_document
from keyferry_plugins.signing.sigv4 import Credentials

ABOUT = """\
Print a token for an Amazon EKS cluster, as an ExecCredential. After 'eks get-token' or 'get-token' AWS
credentials are found in the order of the AWS CLI, after 'token' or without a subcommand in the order of
aws-iam-authenticator."""
_WORDS = "[[eks] get-token | token]"
_CLI_SESSION_NAME = "EKSGetTokenAuth"
_V1ALPHA1 = "client.authentication.k8s.io/v1alpha1"
_NANOSECONDS = 1_000_000_000
_CACHE_KIND = "keyferry-eks credentials"
_MARGIN_SECONDS = 300
_LOCK_SECONDS = 1.0
_CACHED_TEXTS = ("access_key_id", "secret_access_key", "session_token", "source")
# Variables that do not affect the identity; any other variable that begins with AWS_ may.
_IRRELEVANT = ("AWS_IAM_AUTHENTICATOR_CACHE_FILE", "AWS_PAGER", "AWS_DEFAULT_OUTPUT")


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT, words=_WORDS)
    deliver(lambda: _respond(read_options(flags, os.environ), os.environ))


def provide(request: ExecRequest, options: Options, variables: Mapping[str, str]) -> ExecResponse:
    """Return a token for the cluster and its expiry; raise ProvideError on failure."""
    environment = _environment(request, options, variables)
    region = _region(environment, options, request)
    credentials = _credentials(environment, options, region)
    now = environment.now()
    host, scheme = _token_host(environment, options, region)
    signing_region = PUBLIC_REGION if region == GLOBAL_REGION else region
    token = make_token(credentials, options.cluster, host=host, scheme=scheme, region=signing_region, now=now)
    expires_at = now + LIFETIME_SECONDS
    if not options.is_compat:
        check_token(token)
        # The token expires with the keys that sign it.
        expires_at = min(expires_at, credentials.expires_at or expires_at)
    return ExecResponse(token=token, expires_at=expires_at)


def _environment(request: ExecRequest, options: Options, variables: Mapping[str, str]) -> Environment:
    seconds = read_seconds("flag --timeout", options.timeout)

    def ask_code(serial: str) -> str:
        code = ask(request, f"code of the MFA device {serial}: ").strip()
        if not (code.isascii() and code.isdigit()):
            raise ProvideError("the code of the MFA device is not a number")
        # The time that the user takes to respond does not count.
        environment.deadline = Deadline(seconds)
        return code

    environment = Environment(
        variables,
        Deadline(seconds),
        profile=options.profile,
        region=options.region,
        ca_file=options.ca_bundle,
        ask_code=ask_code,
    )
    return environment


def _region(environment: Environment, options: Options, request: ExecRequest) -> str:
    is_cli = options.tool == CLI
    region = environment.find_region(reads_aws_region=not (is_cli and options.is_compat))
    if not region and not options.is_compat and request.cluster is not None:
        region = region_of_server(request.cluster.server)
    if not region:
        if is_cli:
            raise ProvideError(
                "no region is set", "give --region, or set AWS_REGION or region in the profile"
            )
        from keyferry_plugins.aws.machine import instance_region

        region = instance_region(environment) or PUBLIC_REGION
    legacy = environment.setting("AWS_STS_REGIONAL_ENDPOINTS", "sts_regional_endpoints").lower() == "legacy"
    is_fips = environment.is_on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")
    return GLOBAL_REGION if is_cli and legacy and not is_fips and region in LEGACY_STS_REGIONS else region


def region_of_server(server: str) -> str:
    """Return the region in an API server's URL, ``https://ID.SHARD.REGION.eks.amazonaws.com``, or an empty string."""
    host = server.rpartition("://")[2].partition("/")[0].partition(":")[0]
    before, eks, _ = host.partition(".eks.amazonaws.")
    region = before.rpartition(".")[2] if eks else ""
    return region if region.replace("-", "").isalnum() and region.isascii() else ""


def _credentials(environment: Environment, options: Options, region: str) -> Credentials:
    if not options.is_cached:
        return _fresh_credentials(environment, options, region)
    cache = CredentialCache(environment, options)
    found = cache.read()
    if found is None:
        found = _fresh_credentials(environment, options, region)
        cache.write(found)
    return found


def _fresh_credentials(environment: Environment, options: Options, region: str) -> Credentials:
    credentials = find_credentials(environment, region=region, order=BOTOCORE if options.tool == CLI else GO)
    if not options.role_arn:
        return credentials
    from keyferry_plugins.aws.sts import assume_role

    return assume_role(
        environment,
        credentials,
        options.role_arn,
        region=region,
        session_name=_session_name(environment, options, credentials, region),
        external_id=options.external_id,
    )


def _session_name(environment: Environment, options: Options, credentials: Credentials, region: str) -> str:
    if options.session_name:
        return options.session_name
    from keyferry_plugins.aws.sts import caller_user_id, default_session_name

    if options.forwards_session_name:
        _, colon, name = caller_user_id(environment, credentials, region=region).partition(":")
        if colon and name:
            return name
    if options.tool == CLI:
        return _CLI_SESSION_NAME
    return default_session_name(environment, "aws-go-sdk-" if options.is_compat else "keyferry-eks-")


def _token_host(environment: Environment, options: Options, region: str) -> tuple[str, str]:
    """Return the host and scheme that the token is for.

    A configured endpoint applies only to calls made here: EKS would reject it in the token, unless it is one
    of STS' own hosts.
    """
    origin = split_url(find_endpoint(environment, STS, region).url)
    if options.is_compat or (origin.scheme == "https" and is_sts_host(origin.authority)):
        return origin.authority, origin.scheme
    is_fips = environment.is_on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")
    is_dual_stack = environment.is_on("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")
    return standard_host(STS, region, is_fips=is_fips, is_dual_stack=is_dual_stack), "https"


class CredentialCache:
    """The cached credentials for one set of options and environment; errors of the file disable the cache."""

    def __init__(self, environment: Environment, options: Options) -> None:
        self._path = environment.variable("AWS_IAM_AUTHENTICATOR_CACHE_FILE") or os.path.join(
            environment.home, ".kube", "cache", "keyferry-eks", "credentials.json"
        )
        self._key = _cache_key(environment, options)
        self._now = environment.now

    def read(self) -> Credentials | None:
        """Return the cached credentials, or None unless they remain valid for a while."""
        entry = object_of(self._entries() or {}, self._key)
        texts = {name: text for name in _CACHED_TEXTS if isinstance(text := entry.get(name), str)}
        expires_at = number_of(entry, "expires_at") or 0
        if texts.keys() != set(_CACHED_TEXTS) or expires_at - self._now() < _MARGIN_SECONDS:
            return None
        return Credentials(**texts, expires_at=expires_at)

    def write(self, credentials: Credentials) -> None:
        """Store *credentials* if they expire, and drop the entries that have expired."""
        if credentials.expires_at is None:
            return
        with Lock(self._path, Deadline(_LOCK_SECONDS)) as is_held:
            entries = self._entries()
            if not is_held or entries is None:
                return
            alive = {
                key: entry
                for key, entry in entries.items()
                if (number_of(object_of(entries, key), "expires_at") or 0) > self._now()
            }
            texts = {name: getattr(credentials, name) for name in _CACHED_TEXTS}
            alive[self._key] = {**texts, "expires_at": credentials.expires_at}
            save_document(self._path, {"kind": _CACHE_KIND, "entries": alive})

    def _entries(self) -> dict[str, object] | None:
        """Return all entries; None if the file must not be written: another tool's, or accessible to other users."""
        if not os.path.lexists(self._path):
            return {}
        document = load_document(self._path)
        if document is None or document.get("kind") != _CACHE_KIND:
            return None
        entries = document.get("entries")
        return entries if isinstance(entries, dict) else None


def _cache_key(environment: Environment, options: Options) -> str:
    """Return a digest of everything that selects the identity, so that identities which share a file stay apart."""
    variables = sorted(
        [name, value]
        for name, value in environment.variables.items()
        if name.startswith("AWS_") and name not in _IRRELEVANT
    )
    settings = [
        options.cluster,
        options.tool,
        environment.profile_name,
        options.role_arn,
        options.external_id,
        options.session_name,
        str(options.forwards_session_name),
        environment.find_region(),
        environment.home,
    ]
    files = [[path, _stamp(path)] for path in environment.files]
    return digest_of({"settings": settings, "files": files, "variables": variables})


def _stamp(path: str) -> str:
    """Return a text that changes when the file is edited."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_mtime_ns}/{status.st_size}/{status.st_ino}"


def _respond(options: Options, variables: Mapping[str, str]) -> bytes:
    """Return an ExecCredential, with --compat in the version that the tool would choose, or the bare token."""
    exec_info = variables.get(VARIABLE, "")
    if not options.is_compat and not options.is_token_only:
        return respond_cluster(lambda request: provide(request, options, variables), exec_info)
    if options.is_compat:
        version, message = choose_version(exec_info, options.tool)
        if message:
            tell(f"{program_name()}: {message}")
        request = ExecRequest(api_version=version, interactive=_is_terminal())
    else:
        request = read_exec_request(exec_info)
    response = provide(request, options, variables)
    if options.is_token_only:
        return f"{response.token}\n".encode()
    expiry = format_time(int(response.expires_at or 0) * _NANOSECONDS)
    document = {
        "kind": "ExecCredential",
        "apiVersion": request.api_version,
        "spec": {},
        "status": {"expirationTimestamp": expiry, "token": response.token},
    }
    return f"{dumps(document)}\n".encode()


def choose_version(exec_info: str, tool: str) -> tuple[str, str]:
    """Return the apiVersion that *tool* responds with and its warning; the tools accept any KUBERNETES_EXEC_INFO."""
    document = read_object(exec_info)
    if document is None:
        message = f"{VARIABLE} is not JSON: answering in {V1BETA1}" if exec_info and tool == CLI else ""
        return V1BETA1, message
    found = document.get("apiVersion")
    version = found if isinstance(found, str) else ""
    if tool != CLI:
        return version, ""
    if version in {V1, V1BETA1}:
        return version, ""
    if version == _V1ALPHA1:
        return version, f"{version} is deprecated: set apiVersion in the kubeconfig's exec entry to {V1BETA1}"
    return V1BETA1, f"{VARIABLE} has an apiVersion that is not known: answering in {V1BETA1}"


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False
