"""The metadata server of Google's virtual machines: its detection, attributes and tokens."""

from __future__ import annotations

from keyferry._net.forms import encode_query
from keyferry.sdk import HttpError, ProvideError
from keyferry.sdk.http import ONCE, HttpOptions, fetch
from keyferry_plugins.google.answers import access_token, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.http import Reply
    from keyferry_plugins.google.calls import Calls, Token

__all__ = ["ask_metadata", "fetch_metadata_token", "is_on_gce"]

HEADERS = {"Metadata-Flavor": "Google"}
ACCOUNT = "instance/service-accounts/default"
_NAME, _ADDRESS = "metadata.google.internal", "169.254.169.254"
# Never through a proxy, whose operator would receive the node's token.
_OPTIONS = HttpOptions(use_proxy=False, connect_seconds=3, attempt_seconds=10)
_PROBE = HttpOptions(use_proxy=False, connect_seconds=1, attempt_seconds=2, most_bytes=65536)
_PRODUCT = "/sys/class/dmi/id/product_name"
_PRODUCTS = ("Google", "Google Compute Engine")
_NOT_FOUND, _FORBIDDEN = 404, 403
_NO_ACCOUNT = (
    "attach a service account to the node, and grant it roles/artifactregistry.reader to pull images"
    " or roles/container.developer to use clusters"
)
_NO_ACCESS = (
    "grant roles/iam.workloadIdentityUser on the account, so that the pod or node can obtain its token"
)
_NO_SERVER = "outside Google Cloud, set GOOGLE_APPLICATION_CREDENTIALS to a credential file"


def ask_metadata(calls: Calls, path: str, query: str = "") -> Reply:
    """Return the server's response for *path*, below ``computeMetadata/v1``, whatever its status."""
    url = f"http://{_host(calls)}/computeMetadata/v1/{path}{query and f'?{query}'}"
    problem: HttpError | None = None
    try:
        return fetch(
            "GET", url, deadline=calls.deadline, headers=HEADERS, retry=calls.retry, options=_OPTIONS
        )
    except HttpError as error:
        problem = error
    raise ProvideError(f"the metadata server {problem.message}", problem.hint or _NO_SERVER)


def fetch_metadata_token(calls: Calls, scopes: tuple[str, ...] = ()) -> Token:
    """Return a token of the machine's service account."""
    what = "no token of the machine's service account"
    query = encode_query({"scopes": ",".join(scopes)}) if scopes else ""
    reply = ask_metadata(calls, f"{ACCOUNT}/token", query)
    if not reply.is_success:
        raise refusal(reply, what, _advice(reply.status))
    token = access_token(reply, calls, what, "metadata")
    if token.expires_at is None:
        raise ProvideError(f"{what}: {reply.url}: expires_in is missing or not a positive number of seconds")
    return token


def _advice(status: int) -> str:
    if status == _NOT_FOUND:
        return _NO_ACCOUNT
    return _NO_ACCESS if status == _FORBIDDEN else "try again; the metadata server is part of the node"


def _host(calls: Calls) -> str:
    host = calls.setting("GCE_METADATA_HOST") or _NAME
    if any(char in "/?#@" or char <= " " for char in host):
        raise ProvideError("GCE_METADATA_HOST is not a host, with or without a port", "leave out 'http://'")
    return host


def is_on_gce(calls: Calls) -> bool:
    """Return whether there is a metadata server, by the environment, the hardware, or a probe.

    NO_GCE_CHECK=true means that there is none and saves the probe. If GCE_METADATA_IP is set, only that is
    probed.
    """
    if calls.setting("GCE_METADATA_HOST"):
        return True
    if calls.setting("NO_GCE_CHECK").lower() == "true":
        return False
    given = calls.setting("GCE_METADATA_IP")
    if given:
        return _answers_as_google(calls, given)
    return _product() in _PRODUCTS or any(_answers_as_google(calls, place) for place in (_ADDRESS, _NAME))


def _product() -> str:
    try:
        with open(_PRODUCT, encoding="ascii", errors="replace") as file:
            return file.read(100).strip()
    except OSError:
        return ""


def _answers_as_google(calls: Calls, place: str) -> bool:
    try:
        reply = fetch(
            "GET", f"http://{place}/", deadline=calls.deadline, headers=HEADERS, retry=ONCE, options=_PROBE
        )
    except HttpError:
        return False
    # A captive portal responds as well; only the metadata server sends this header.
    return "Google" in reply.values("metadata-flavor")
