"""The token that EKS accepts: a presigned URL of STS' GetCallerIdentity that contains the cluster's name."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.partitions import partition_of
from keyferry_plugins.signing.sigv4 import presign_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.aws.credentials import Credentials

__all__ = ["check_token", "is_sts_host", "make_token", "region_of_sts_host"]

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
LIFETIME_SECONDS = 14 * 60
_GLOBAL_HOST, _GLOBAL = "sts.amazonaws.com", "global"
_SIGNED_SECONDS = 60
_MOST_BYTES = 4096
_MOST_SIGNED_SECONDS = 900
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
    from binascii import b2a_base64

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
    encoded = b2a_base64(url.encode(), newline=False).decode()
    return PREFIX + encoded.translate(str.maketrans("+/", "-_")).rstrip("=")


def check_token(token: str) -> None:
    """Raise ProvideError if EKS would reject the token, as EKS itself gives no reason."""
    if len(token) > _MOST_BYTES:
        raise ProvideError(
            f"the token is {len(token)} bytes long, but EKS accepts at most {_MOST_BYTES}",
            "use credentials with a shorter session token: fewer session tags and policies",
        )
    url = _decode(token)
    host, slash, query = url.removeprefix("https://").partition("/?")
    if not url.startswith("https://") or not slash:
        raise ProvideError("the token is for a URL that is not https://HOST/?...")
    if not is_sts_host(host):
        raise ProvideError(f"the token is for {host!r}, but EKS accepts only STS hosts")
    _check_query(query)


def is_sts_host(host: str) -> bool:
    """Return whether EKS accepts a token for *host*."""
    try:
        return bool(region_of_sts_host(host))
    except ProvideError:
        return False


def region_of_sts_host(host: str) -> str:
    """Return the region of an STS host, ``global`` for the global one; raise ProvideError if it is not an STS host."""
    if host == _GLOBAL_HOST:
        return _GLOBAL
    service, _, rest = host.partition(".")
    region, _, suffix = rest.partition(".")
    partition = partition_of(region)
    if (
        service in {"sts", "sts-fips"}
        and region
        and suffix in {partition.suffix, partition.dual_stack_suffix} - {""}
    ):
        return region
    raise ProvideError(
        f"{host!r} is not an STS host, expected sts.REGION.{partition.suffix} or one of its other forms"
    )


def _decode(token: str) -> str:
    from binascii import Error, a2b_base64

    if not token.startswith(PREFIX):
        raise ProvideError(f"the token does not begin with {PREFIX}")
    text = token.removeprefix(PREFIX).translate(str.maketrans("-_", "+/"))
    try:
        return a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True).decode("ascii", "replace")
    except (Error, ValueError):
        problem = "the token is not base64"
    raise ProvideError(problem)


def _check_query(query: str) -> None:
    from keyferry._net.forms import decode_percent

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
        and int(expires) <= _MOST_SIGNED_SECONDS
    )
    if not is_good:
        raise ProvideError(
            "the token's URL lacks a valid action, date, expiry or signed cluster name, which EKS requires"
        )
