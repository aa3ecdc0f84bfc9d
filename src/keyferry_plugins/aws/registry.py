"""Amazon's registries: the host of an image, the parts of a private ECR host, and the login that ECR's API returns."""

from __future__ import annotations

from binascii import Error, a2b_base64

from keyferry._core.values import Value, field
from keyferry._net.url import UrlSyntaxError, read_url, split_host_port
from keyferry.sdk import ProvideError
from keyferry_plugins.aws.calls import Call, send
from keyferry_plugins.aws.endpoints import ECR_PUBLIC, PARTITIONS, Endpoint
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.oauth.answers import number_of, text_of
from keyferry_plugins.signing.sigv4 import Credentials

PUBLIC_HOSTS = ("public.ecr.aws", "ecr-public.aws.com")
_ACCOUNT_DIGITS = 12
_SERVICES = ("dkr.ecr", "dkr-ecr")
_DUAL_STACK_SUFFIXES = ("on.aws", "on.amazonwebservices.com.cn")
_SUFFIXES = {*(partition.suffix for partition in PARTITIONS), *_DUAL_STACK_SUFFIXES}
_TARGET = "AmazonEC2ContainerRegistry_V20150921"
_PUBLIC_TARGET = "SpencerFrontendService"


class ImageHost(Value):
    """The host of an image in its original letter case, and its port, if any."""

    name: str
    port: str = ""

    @property
    def key(self) -> str:
        """The key under which the kubelet matches a credential."""
        return f"{self.name}:{self.port}" if self.port else self.name


class EcrHost(Value):
    """The parts of a private registry's host: account, region and kind of endpoint."""

    account: str
    region: str
    is_fips: bool = False
    is_dual_stack: bool = False


def parse_image(image: str) -> ImageHost:
    """Return the host of *image*, which may be a URL; raise ProvideError if Go's parser would reject it."""
    if any(char <= " " or char == "\x7f" for char in image):
        raise ProvideError(f"image {image[:200]!r}: has a blank or a control character")
    try:
        authority = read_url(image if "://" in image else f"https://{image}").host
    except UrlSyntaxError as error:
        why = error.why
    else:
        name, port = split_host_port(authority)
        if name:
            return ImageHost(name=name[1:-1] if name.startswith("[") else name, port=port)
        why = "it has no host"
    # Raised outside the handler and without the image, which may contain a password.
    raise ProvideError(f"image: {why}")


def parse_ecr_host(host: str) -> EcrHost | None:
    """Return the parts of a private ECR host, or None for any other host."""
    account, _, rest = host.partition(".")
    if len(account) != _ACCOUNT_DIGITS or not (account.isascii() and account.isdigit()):
        return None
    service = next((service for service in _SERVICES if rest.startswith(service)), "")
    rest = rest.removeprefix(service)
    is_fips = rest.startswith("-fips.")
    region, _, suffix = rest.removeprefix("-fips").removeprefix(".").partition(".")
    is_apart = rest.startswith((".", "-fips."))
    is_region = (
        region[:1].isalnum() and region.isascii() and region.replace("-", "").replace("_", "").isalnum()
    )
    if not service or not is_apart or suffix not in _SUFFIXES or not is_region:
        return None
    return EcrHost(
        account=account, region=region, is_fips=is_fips, is_dual_stack=suffix in _DUAL_STACK_SUFFIXES
    )


class RegistryLogin(Value):
    """User name and password for a registry; *expires_at* is in Unix seconds, or None if AWS gives no expiry."""

    username: str
    password: str = field(repr=False)
    expires_at: float | None = None


def get_login(environment: Environment, endpoint: Endpoint, credentials: Credentials) -> RegistryLogin:
    """Request an authorization token; raise ProvideError, which quotes none of the token, on failure."""
    is_public = endpoint.service == ECR_PUBLIC
    target = _PUBLIC_TARGET if is_public else _TARGET
    call = Call(
        action="GetAuthorizationToken",
        endpoint=endpoint,
        headers={
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{target}.GetAuthorizationToken",
        },
        body=b"{}",
        right="ecr-public:GetAuthorizationToken and sts:GetServiceBearerToken"
        if is_public
        else "ecr:GetAuthorizationToken",
    )
    found = send(environment, call, credentials).json().get("authorizationData")
    if isinstance(found, list):
        found = found[0] if found else None
    if not isinstance(found, dict):
        raise ProvideError(f"{call.name}: the response has no authorizationData")
    username, password = _split(text_of(found, "authorizationToken"), call.name)
    expires_at = number_of(found, "expiresAt")
    if expires_at is None and found.get("expiresAt") is not None:
        raise ProvideError(f"{call.name}: expiresAt is not a time in seconds")
    return RegistryLogin(username=username, password=password, expires_at=expires_at)


def _split(token: str, where: str) -> tuple[str, str]:
    if not token:
        raise ProvideError(f"{where}: the response has no authorizationToken")
    decoded = b""
    try:
        decoded = a2b_base64(token.encode("ascii", "replace"), strict_mode=True)
    except Error:
        pass
    # Raised outside the handler: the caught exception may contain the token.
    if not decoded:
        raise ProvideError(f"{where}: authorizationToken is not base64")
    username, colon, password = decoded.decode("utf-8", "replace").partition(":")
    if not colon:
        raise ProvideError(f"{where}: authorizationToken is not 'user:password'")
    return username, password
