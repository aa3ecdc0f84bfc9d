"""The token that EKS accepts: a presigned URL of STS' GetCallerIdentity that contains the cluster's name."""

from __future__ import annotations

from keyferry._net.forms import decode_percent
from keyferry.sdk import ProvideError
from keyferry_plugins.aws.endpoints import partition_of
from keyferry_plugins.signing.jose import decode_segment, encode_segment
from keyferry_plugins.signing.sigv4 import Credentials, presign_url

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
LIFETIME_SECONDS = 14 * 60
_SIGNED_SECONDS = 60
MAX_TOKEN_BYTES = 4096
MAX_SIGNED_SECONDS = 900
_PARAMETERS = frozenset(
    [
        "action",
        "version",
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
    ]
)


def make_token(
    credentials: Credentials, cluster: str, *, host: str, region: str, now: float, scheme: str = "https"
) -> str:
    """Return the token for *cluster*, signed for the STS endpoint *host*."""
    url = presign_url(
        credentials,
        scheme=scheme,
        host=host,
        query={"Action": "GetCallerIdentity", "Version": "2011-06-15"},
        headers={CLUSTER_HEADER: cluster},
        region=region,
        service="sts",
        expires_seconds=_SIGNED_SECONDS,
        now=now,
    )
    return PREFIX + encode_segment(url.encode())


def check_token(token: str) -> None:
    """Raise ProvideError if EKS would reject the token, as EKS itself gives no reason."""
    if len(token) > MAX_TOKEN_BYTES:
        raise ProvideError(
            f"the token is {len(token)} bytes long, but EKS accepts at most {MAX_TOKEN_BYTES}",
            "use credentials with a shorter session token: fewer session tags and policies",
        )
    if not token.startswith(PREFIX):
        raise ProvideError(f"the token does not begin with {PREFIX}")
    try:
        url = decode_segment(token.removeprefix(PREFIX)).decode("ascii", "replace")
    except ProvideError:
        url = ""
    if not url:
        raise ProvideError("the token is not base64")
    host, slash, query = url.removeprefix("https://").partition("/?")
    if not url.startswith("https://") or not slash:
        raise ProvideError("the token is for a URL that is not https://HOST/?...")
    if not is_sts_host(host):
        raise ProvideError(f"the token is for {host!r}, but EKS accepts only STS hosts")
    _check_query(query)


def is_sts_host(host: str) -> bool:
    """Return whether EKS accepts a token for *host*."""
    service, _, rest = host.partition(".")
    region, _, suffix = rest.partition(".")
    partition = partition_of(region)
    return host == "sts.amazonaws.com" or (
        service in {"sts", "sts-fips"}
        and bool(region and suffix)
        and suffix in {partition.suffix, partition.dual_stack_suffix}
    )


def _check_query(query: str) -> None:
    fields: dict[str, str] = {}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        name = decode_percent(name).lower()
        if name not in _PARAMETERS or name in fields:
            raise ProvideError(f"the token's URL contains {name[:60]!r} twice, or EKS does not accept it")
        fields[name] = decode_percent(value)
    expires = fields.get("x-amz-expires", "")
    is_good = (
        fields.get("action") == "GetCallerIdentity"
        and CLUSTER_HEADER in fields.get("x-amz-signedheaders", "").split(";")
        and fields.get("x-amz-date")
        and expires.isascii()
        and expires.isdigit()
        and int(expires) <= MAX_SIGNED_SECONDS
    )
    if not is_good:
        raise ProvideError(
            "the token's URL lacks a valid action, date, expiry or signed cluster name, which EKS requires"
        )
