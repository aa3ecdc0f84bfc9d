"""keyferry-eks: tokens for Amazon EKS clusters, with the arguments of the AWS CLI and aws-iam-authenticator."""

from __future__ import annotations

import os

from keyferry.sdk import Deadline, ExecResponse, ProvideError, serve_cluster
from keyferry.sdk.flags import read_flags
from keyferry_plugins.aws.eks_options import CLI, FLAGS, read_options
from keyferry_plugins.aws.eks_token import LIFETIME_SECONDS, check_token, is_sts_host, make_token
from keyferry_plugins.aws.endpoints import (
    GLOBAL_REGION,
    LEGACY_STS_REGIONS,
    PUBLIC_REGION,
    STS,
    find_endpoint,
    standard_host,
)
from keyferry_plugins.aws.environment import Environment, read_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk import ExecRequest
    from keyferry_plugins.aws.credentials import Credentials
    from keyferry_plugins.aws.eks_options import Options

__all__ = ["main", "provide"]

ABOUT = """\
Print a token for an Amazon EKS cluster, as an ExecCredential. After 'eks get-token' or 'get-token' AWS
credentials are found in the order of the AWS CLI, after 'token' or without a subcommand in the order of
aws-iam-authenticator."""
_WORDS = "[[eks] get-token | token]"
_CLI_SESSION_NAME = "EKSGetTokenAuth"


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT, words=_WORDS)

    def make(request: ExecRequest) -> ExecResponse:
        return provide(request, read_options(flags, os.environ), os.environ)

    if not flags.is_on("compat") and "token-only" not in flags.given and "config" not in flags.given:
        serve_cluster(make)
    from keyferry.sdk.stdio import deliver
    from keyferry_plugins.aws.eks_output import write_as_upstream

    deliver(lambda: write_as_upstream(read_options(flags, os.environ), make, os.environ))


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
    return ExecResponse(token, expires_at)


def _environment(request: ExecRequest, options: Options, variables: Mapping[str, str]) -> Environment:
    seconds = read_seconds(options.timeout)
    environment = Environment(
        variables,
        Deadline(seconds),
        profile=options.profile,
        region=options.region,
        ca_file=options.ca_bundle,
    )
    environment.ask_code = _asker(request, environment, seconds)
    return environment


def _asker(request: ExecRequest, environment: Environment, seconds: float) -> Callable[[str], str]:
    def ask_code(serial: str) -> str:
        from keyferry.sdk import ask

        code = ask(request, f"code of the MFA device {serial}: ").strip()
        if not (code.isascii() and code.isdigit()):
            raise ProvideError("the code of the MFA device is not a number")
        # The time that the user takes to respond does not count.
        environment.deadline = Deadline(seconds)
        return code

    return ask_code


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
        from keyferry_plugins.aws.instance import instance_region

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
    from keyferry_plugins.aws.eks_cache import CredentialCache

    cache = CredentialCache(environment, options)
    found = cache.read()
    if found is None:
        found = _fresh_credentials(environment, options, region)
        cache.write(found)
    return found


def _fresh_credentials(environment: Environment, options: Options, region: str) -> Credentials:
    from keyferry_plugins.aws.chain import BOTOCORE, GO, find_credentials

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
    from keyferry._net.http_errors import split_url

    origin = split_url(find_endpoint(environment, STS, region).url)
    if options.is_compat or (origin.scheme == "https" and is_sts_host(origin.authority)):
        return origin.authority, origin.scheme
    is_fips = environment.is_on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")
    is_dual_stack = environment.is_on("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")
    return standard_host(STS, region, is_fips=is_fips, is_dual_stack=is_dual_stack), "https"
