"""keyferry-ecr: an image credential provider for Amazon's container registries, private and public."""

from __future__ import annotations

import os
from collections.abc import Mapping

from keyferry.sdk import AuthConfig, Deadline, ProvideError, Request, Response, serve
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_flags, read_seconds
from keyferry_plugins.aws.chain import find_credentials
from keyferry_plugins.aws.endpoints import ECR, ECR_PUBLIC, PUBLIC_REGION, Endpoint, find_endpoint
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.aws.registry import (
    PUBLIC_HOSTS,
    EcrHost,
    ImageHost,
    RegistryLogin,
    get_login,
    parse_ecr_host,
    parse_image,
)
from keyferry_plugins.signing.sigv4 import Credentials

ROLE_ANNOTATION = "eks.amazonaws.com/ecr-role-arn"
ROLE_VARIABLE = "AWS_ECR_ROLE_ARN"
SESSION_NAME = "ecr-credential-provider"
# No token of ECR is valid for more than twice this, so a later expiry in a response is capped.
MAX_CACHE_SECONDS = 6 * 3600

ABOUT = """\
Answer a kubelet's request for the credentials of an image in Amazon ECR: the request comes on standard input,
the response goes to standard output. AWS credentials are found as AWS' Go SDK finds them: variables, web
identity, profile, container, instance; or, with a service account's token, by its role."""

FLAGS = (
    Flag(name="compat", about="behave exactly like ecr-credential-provider, quirks included", is_switch=True),
    Flag(name="timeout", about="time limit of the whole run", default="50s"),
    *LOG_FLAGS,
)


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT)
    serve(lambda request: provide(request, flags, os.environ))


def provide(request: Request, flags: Flags, variables: Mapping[str, str]) -> Response:
    """Return the login for the image's registry; raise ProvideError on failure."""
    is_compat = flags.is_on("compat")
    host = parse_image(request.image)
    registry = parse_ecr_host(host.name)
    is_public = host.name in PUBLIC_HOSTS
    if registry is None and not is_public:
        raise _not_ecr(host)
    region = registry.region if registry is not None else ""
    environment = Environment(
        variables, Deadline(read_seconds("flag --timeout", flags.text("timeout"))), region=region
    )
    sts_region = environment.find_region() or (PUBLIC_REGION if is_public and not is_compat else "")
    credentials = _credentials(environment, request, sts_region, is_compat=is_compat)
    endpoint = _endpoint(environment, registry, is_public=is_public, is_compat=is_compat)
    login = get_login(environment, endpoint, credentials)
    key = host.name if is_compat else host.key
    lifetime = cache_seconds(login, environment.now(), is_compat=is_compat)
    auth = {key: AuthConfig(username=login.username, password=login.password)}
    return Response(auth=auth, cache_seconds=lifetime)


def cache_seconds(login: RegistryLogin, now: float, *, is_compat: bool = False) -> float | None:
    """Return half of a login's remaining lifetime in whole seconds; 0, which disables caching, if it has expired.

    For an expired login upstream returns no duration, and the kubelet uses the config's default, often 12
    hours.
    """
    if login.expires_at is None:
        return 0
    half = int(login.expires_at - now) // 2
    if half <= 0:
        return None if is_compat else 0
    return half if is_compat else min(half, MAX_CACHE_SECONDS)


def _endpoint(
    environment: Environment, registry: EcrHost | None, *, is_public: bool, is_compat: bool
) -> Endpoint:
    if is_public:
        return find_endpoint(environment, ECR_PUBLIC, PUBLIC_REGION)
    # A FIPS or dual-stack host in the image means that such endpoints are wanted, or the only ones reachable.
    kind = None if is_compat else registry
    return find_endpoint(
        environment,
        ECR,
        environment.find_region(),
        is_fips=kind is not None and kind.is_fips,
        is_dual_stack=kind is not None and kind.is_dual_stack,
    )


def _credentials(environment: Environment, request: Request, region: str, *, is_compat: bool) -> Credentials:
    """Return the credentials of the service account's role, if it has a token and a role, or else the environment's."""
    role = _role(environment, request, is_compat=is_compat) if request.service_account_token else ""
    if not role:
        return find_credentials(environment, region=region)
    from keyferry_plugins.aws.sts import assume_role_with_web_identity

    return assume_role_with_web_identity(
        environment, role, request.service_account_token, region=region, session_name=SESSION_NAME
    )


def _role(environment: Environment, request: Request, *, is_compat: bool) -> str:
    annotated = request.service_account_annotations.get(ROLE_ANNOTATION)
    if annotated is None or (not annotated and not is_compat):
        return environment.variable(ROLE_VARIABLE)
    return annotated


def _not_ecr(host: ImageHost) -> ProvideError:
    lower = host.name.lower()
    is_case = lower in PUBLIC_HOSTS or parse_ecr_host(lower) is not None
    return ProvideError(
        f"image: {host.name[:200]!r} is not an Amazon ECR registry, expected ACCOUNT.dkr.ecr.REGION.amazonaws.com or"
        f" one of its other forms, or {' or '.join(PUBLIC_HOSTS)}",
        "write the host in lower case" if is_case else "narrow matchImages in the kubelet's config",
    )
