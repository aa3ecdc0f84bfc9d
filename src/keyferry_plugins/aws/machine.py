"""Credentials that the machine provides: a container's credentials endpoint, or an instance's metadata service.

The endpoint is that of ECS, of EKS Pod Identity, or of a compatible server.
"""

from __future__ import annotations

from ipaddress import ip_address

from keyferry._net.address import is_loopback_host
from keyferry._net.forms import encode_percent
from keyferry._net.http_errors import split_url
from keyferry._net.proxy import Origin
from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.http import HttpOptions, Reply, Retry, fetch
from keyferry.sdk.messages import shown
from keyferry_plugins.aws.calls import is_transient, read_refusal
from keyferry_plugins.aws.credentials import read_credentials
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.oauth.answers import is_visible, refused, token_of
from keyferry_plugins.signing.sigv4 import Credentials

_CONTAINER = "the container credentials endpoint"
_RELATIVE, _FULL = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_CONTAINER_HOSTS = ("169.254.170.2", "169.254.170.23", "fd00:ec2::23")
_CONTAINER_SECONDS = 5.0
_INSTANCE = "the instance metadata service"
_INSTANCE_URL, _INSTANCE_URL_IPV6 = "http://169.254.169.254", "http://[fd00:ec2::254]"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_SESSION_SECONDS = "300"
# Statuses of a service that supports only version 1.
_NO_TOKENS = (403, 404, 405)
_UNAUTHORIZED = 401
_MAX_SECONDS = 600
_DISABLED, _V1_DISABLED = "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_V1_DISABLED"


def machine_credentials(environment: Environment) -> Credentials:
    """Return the credentials of the container or instance this runs on; raise ProvideError if there are none."""
    if _container_url(environment):
        return container_credentials(environment)
    return instance_credentials(environment)


def _container_url(environment: Environment) -> str:
    relative = environment.variable(_RELATIVE)
    if relative:
        return f"http://169.254.170.2/{relative.removeprefix('/')}"
    return environment.variable(_FULL)


def container_credentials(environment: Environment) -> Credentials:
    """Return the endpoint's credentials; raise ProvideError on failure.

    Plain http is allowed only to AWS' link-local addresses and to loopback.
    """
    url = _container_url(environment)
    if not url:
        raise ProvideError(
            f"the profile requires container credentials, but neither {_RELATIVE} nor {_FULL} is set"
        )
    origin = split_url(url)
    if origin.scheme == "http" and not _is_near(origin):
        raise ProvideError(
            f"{_FULL}: {origin.host!r} is neither loopback nor an AWS address, and plain http is allowed only to these",
            "use https, or the IP address",
        )
    token = _container_token(environment)
    reply = fetch(
        "GET",
        url,
        deadline=environment.deadline,
        headers={"Accept": "application/json", **({"Authorization": token} if token else {})},
        retry=Retry(attempts=environment.attempts(), is_transient=is_transient),
        options=HttpOptions(use_proxy=False, attempt_seconds=_CONTAINER_SECONDS)
        if origin.scheme == "http"
        else environment.http_options(),
    )
    if not reply.is_success:
        said = read_refusal(reply).text((token,) if token else ())
        raise refused(
            reply,
            f"{_CONTAINER} {reply.url}: status {reply.status}" + (f", {said}" if said else ""),
            "check the pod identity association or task role, and the authorization token",
        )
    return read_credentials(reply.json(), f"{_CONTAINER} {reply.url}")


def _is_near(origin: Origin) -> bool:
    if is_loopback_host(origin.host) or origin.host in _CONTAINER_HOSTS:
        return True
    try:
        return ip_address(origin.host) in map(ip_address, _CONTAINER_HOSTS)
    except ValueError:
        return False


def _container_token(environment: Environment) -> str:
    """Return the endpoint's authorization token; the file, which is renewed, takes precedence over the variable."""
    path = environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if path:
        token = read_bounded(path, "the container authorization token file").decode("latin-1")
        where = f"the container authorization token file {path!r}"
    else:
        where = "AWS_CONTAINER_AUTHORIZATION_TOKEN"
        token = environment.variable(where)
    # A blank is valid here: "Bearer ..." is common.
    if not (token.isascii() and token.isprintable()):
        raise ProvideError(
            f"{where} contains a line break or another character that is not valid in a header"
        )
    return token


class _InstanceMetadata:
    """A client of the metadata service; it obtains its session token on first use."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._token: str | None = None
        self._base = _instance_url(environment)
        seconds = _number(environment, "AWS_METADATA_SERVICE_TIMEOUT", 2.0)
        self._options = HttpOptions(
            use_proxy=False, connect_seconds=min(seconds, 1.0), attempt_seconds=seconds
        )
        attempts = int(_number(environment, "AWS_METADATA_SERVICE_NUM_ATTEMPTS", 3))
        self._retry = Retry(attempts=max(attempts, 1), first_seconds=0.1, most_seconds=1.0)

    def get(self, path: str) -> Reply:
        """Return the response for *path*; an expired token is renewed once. Raise ProvideError on failure."""
        reply = self._get(path)
        if reply.status == _UNAUTHORIZED:
            self._token = None
            reply = self._get(path)
        if not reply.is_success:
            raise refused(reply, f"{_INSTANCE} {reply.url}: status {reply.status}")
        return reply

    def _get(self, path: str) -> Reply:
        if self._token is None:
            self._token = self._get_token()
        headers = {"X-aws-ec2-metadata-token": self._token} if self._token else {}
        return self._fetch("GET", path, headers)

    def _get_token(self) -> str:
        """Return a token of version 2, or an empty string if only version 1 is available and allowed."""
        reply: Reply | None = None
        try:
            reply = self._fetch(
                "PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": _SESSION_SECONDS}
            )
        except HttpError as error:
            # With a low hop limit the response never reaches a container; version 1 may work.
            if not error.is_timeout:
                raise
            problem = error.message
        else:
            problem = f"{_INSTANCE} {reply.url}: status {reply.status}"
        if reply is not None and reply.is_success:
            token = reply.body.decode("latin-1").strip()
            if not token or not is_visible(token):
                raise ProvideError(f"{_INSTANCE} {reply.url}: the response is not a token")
            return token
        if reply is not None and reply.status not in _NO_TOKENS:
            raise refused(reply, problem)
        if self._environment.is_on(_V1_DISABLED, "ec2_metadata_v1_disabled"):
            raise ProvideError(f"{problem}; version 1 is disabled by {_V1_DISABLED}")
        return ""

    def _fetch(self, method: str, path: str, headers: dict[str, str]) -> Reply:
        return fetch(
            method,
            self._base + path,
            deadline=self._environment.deadline,
            headers=headers,
            retry=self._retry,
            options=self._options,
        )


def instance_credentials(environment: Environment) -> Credentials:
    """Return the credentials of the instance's role; raise ProvideError on failure."""
    if environment.variable(_DISABLED).lower() == "true":
        raise ProvideError(
            f"no AWS credentials were found, and {_DISABLED} disables the instance metadata service",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or unset it",
        )
    metadata = _InstanceMetadata(environment)
    role = _first_role(metadata)
    reply = metadata.get(_ROLES + encode_percent(role))
    document = reply.json()
    code = token_of(document, "Code")
    if code.lower() != "success":
        raise ProvideError(f"{_INSTANCE} {reply.url}: Code is {shown(code, 60)!r}, expected 'Success'")
    return read_credentials(document, f"{_INSTANCE} (role {role})")


def instance_region(environment: Environment) -> str:
    """Return the instance's region, or an empty string if this may not be an instance."""
    if environment.variable(_DISABLED).lower() == "true":
        return ""
    try:
        document = _InstanceMetadata(environment).get("/latest/dynamic/instance-identity/document").json()
    except ProvideError:
        return ""
    return token_of(document, "region")


def _first_role(metadata: _InstanceMetadata) -> str:
    try:
        listed = metadata.get(_ROLES).body.decode("utf-8", "replace")
    except ProvideError as error:
        problem, pause = error.message, error.retry_after_seconds
    else:
        role = listed.partition("\n")[0].strip()
        if role and role.isprintable():
            return role
        problem, pause = f"{_INSTANCE} lists no role", 0
    raise ProvideError(
        f"no AWS credentials were found: not in variables, not in a profile, and {problem}",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; on an instance, attach an IAM role to it",
        retry_after_seconds=pause,
    )


def _instance_url(environment: Environment) -> str:
    endpoint = environment.setting("AWS_EC2_METADATA_SERVICE_ENDPOINT", "ec2_metadata_service_endpoint")
    if endpoint:
        return endpoint.rstrip("/")
    mode = environment.setting("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "ec2_metadata_service_endpoint_mode")
    if mode.lower() not in {"", "ipv4", "ipv6"}:
        raise ProvideError(
            f"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE: found {mode[:40]!r}, expected IPv4 or IPv6"
        )
    return _INSTANCE_URL_IPV6 if mode.lower() == "ipv6" else _INSTANCE_URL


def _number(environment: Environment, name: str, default: float) -> float:
    text = environment.variable(name)
    if not text:
        return default
    if not (text.isascii() and text.replace(".", "", 1).isdigit() and 0 < float(text) < _MAX_SECONDS):
        raise ProvideError(f"{name}: found {text[:40]!r}, expected a number above 0 and below {_MAX_SECONDS}")
    return float(text)
