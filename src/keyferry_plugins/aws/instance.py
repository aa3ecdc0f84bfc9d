"""The metadata service of an EC2 instance: the credentials of its role, and its region."""

from __future__ import annotations

from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.http import HttpOptions, Retry, fetch
from keyferry_plugins.aws.credentials import Credentials, read_credentials, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.http import Reply
    from keyferry_plugins.aws.environment import Environment

__all__ = ["InstanceMetadata", "instance_credentials", "instance_region"]

SOURCE = "the instance metadata service"
_BASE, _BASE_IPV6 = "http://169.254.169.254", "http://[fd00:ec2::254]"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_TTL_SECONDS = "300"
# Statuses of a service that supports only version 1.
_NO_TOKENS = (403, 404, 405)
_UNAUTHORIZED = 401
_LONGEST = 600
_DISABLED, _V1_DISABLED = "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_V1_DISABLED"


class InstanceMetadata:
    """A client of the metadata service; it obtains its session token on first use."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._token: str | None = None
        self._base = _base(environment)
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
            raise ProvideError(f"{SOURCE} {reply.url}: status {reply.status}")
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
                "PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": _TTL_SECONDS}
            )
        except HttpError as error:
            # With a low hop limit the response never reaches a container; version 1 may work.
            if not error.is_timeout:
                raise
            problem = error.message
        else:
            problem = f"{SOURCE} {reply.url}: status {reply.status}"
        if reply is not None and reply.is_success:
            return self._check_token(reply)
        if reply is not None and reply.status not in _NO_TOKENS:
            raise ProvideError(problem)
        if self._environment.is_on(_V1_DISABLED, "ec2_metadata_v1_disabled"):
            raise ProvideError(f"{problem}; version 1 is disabled by {_V1_DISABLED}")
        return ""

    def _check_token(self, reply: Reply) -> str:
        token = reply.body.decode("latin-1").strip()
        if not token or any(not "!" <= char <= "~" for char in token):
            raise ProvideError(f"{SOURCE} {reply.url}: the response is not a token")
        return token

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
    if environment.is_on(_DISABLED, ""):
        raise ProvideError(
            f"no AWS credentials were found, and {_DISABLED} disables the instance metadata service",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or unset it",
        )
    metadata = InstanceMetadata(environment)
    role = _first_role(metadata)
    from keyferry._net.forms import encode_percent

    reply = metadata.get(_ROLES + encode_percent(role))
    document = reply.json()
    code = text_of(document, "Code")
    if code.lower() != "success":
        from keyferry.sdk.messages import shown

        raise ProvideError(f"{SOURCE} {reply.url}: Code is {shown(code, 60)!r}, expected 'Success'")
    return read_credentials(document, f"{SOURCE} (role {role})")


def instance_region(environment: Environment) -> str:
    """Return the instance's region, or an empty string if this may not be an instance."""
    if environment.is_on(_DISABLED, ""):
        return ""
    try:
        document = InstanceMetadata(environment).get("/latest/dynamic/instance-identity/document").json()
    except ProvideError:
        return ""
    return text_of(document, "region")


def _first_role(metadata: InstanceMetadata) -> str:
    try:
        listed = metadata.get(_ROLES).body.decode("utf-8", "replace")
    except ProvideError as error:
        problem = error.message
    else:
        role = listed.partition("\n")[0].strip()
        if role and role.isprintable():
            return role
        problem = f"{SOURCE} lists no role"
    raise ProvideError(
        f"no AWS credentials were found: not in variables, not in a profile, and {problem}",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; on an instance, attach an IAM role to it",
    )


def _base(environment: Environment) -> str:
    endpoint = environment.setting("AWS_EC2_METADATA_SERVICE_ENDPOINT", "ec2_metadata_service_endpoint")
    if endpoint:
        return endpoint.rstrip("/")
    mode = environment.setting("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "ec2_metadata_service_endpoint_mode")
    if mode.lower() not in {"", "ipv4", "ipv6"}:
        raise ProvideError(
            f"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE: found {mode[:40]!r}, expected IPv4 or IPv6"
        )
    return _BASE_IPV6 if mode.lower() == "ipv6" else _BASE


def _number(environment: Environment, name: str, default: float) -> float:
    text = environment.variable(name)
    if not text:
        return default
    if not (text.isascii() and text.replace(".", "", 1).isdigit() and 0 < float(text) < _LONGEST):
        raise ProvideError(f"{name}: found {text[:40]!r}, expected a number above 0 and below {_LONGEST}")
    return float(text)
