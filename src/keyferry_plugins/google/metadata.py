"""The metadata server of Google's virtual machines: its detection, tokens, and docker configs in attributes."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping

from keyferry._core.json import read_object
from keyferry._net.forms import encode_query
from keyferry.sdk import AuthConfig, HttpError, ProvideError
from keyferry.sdk.http import ONCE, HttpOptions, Reply, fetch
from keyferry_plugins.google.calls import Calls, access_token, refusal
from keyferry_plugins.oauth.answers import Token

HEADERS = {"Metadata-Flavor": "Google"}
ACCOUNT = "instance/service-accounts/default"
_NAME, _ADDRESS = "metadata.google.internal", "169.254.169.254"
# Never through a proxy, whose operator would receive the node's token.
_OPTIONS = HttpOptions(use_proxy=False, connect_seconds=3, attempt_seconds=10)
_PROBE = HttpOptions(use_proxy=False, connect_seconds=1, attempt_seconds=2, most_bytes=65536)
_PRODUCT = "/sys/class/dmi/id/product_name"
_PRODUCTS = ("Google", "Google Compute Engine")
_CONFIG, _CONFIG_URL = "google-dockercfg", "google-dockercfg-url"
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


def fetch_dockercfg(calls: Calls, *, is_by_url: bool) -> dict[str, AuthConfig]:
    """Return the logins of the instance's docker config."""
    if not is_by_url:
        return read_dockercfg(_attribute(calls, _CONFIG), f"the instance's attribute {_CONFIG}")
    url = _attribute(calls, _CONFIG_URL).decode("utf-8", "replace").strip()
    if not url.startswith(("http://", "https://")):
        raise ProvideError(f"the instance's attribute {_CONFIG_URL} is not an http:// or https:// URL")
    reply = fetch(
        "GET", url, deadline=calls.deadline, retry=calls.retry, options=HttpOptions(attempt_seconds=10)
    )
    if not reply.is_success:
        raise refusal(reply, "no docker config", f"check the URL in the instance's attribute {_CONFIG_URL}")
    return read_dockercfg(reply.body, f"the document at the URL in the instance's attribute {_CONFIG_URL}")


def _attribute(calls: Calls, name: str) -> bytes:
    reply = ask_metadata(calls, f"instance/attributes/{name}")
    if not reply.is_success:
        raise refusal(
            reply, "no docker config", f"set the metadata key {name} of the instance or its project"
        )
    return reply.body


def read_dockercfg(data: bytes, where: str) -> dict[str, AuthConfig]:
    """Return the logins in a ``.dockercfg`` by key; raise ProvideError, which quotes none of it, if it is invalid."""
    document = read_object(data)
    if document is None:
        raise ProvideError(f"{where} is not a JSON object of registries")
    return {key: _login(key, entry, where) for key, entry in document.items()}


def _login(key: str, entry: object, where: str) -> AuthConfig:
    if not isinstance(entry, dict):
        raise ProvideError(f"{where}: the entry of {key[:200]!r} is not an object")
    packed = _text(entry, "auth", key, where)
    if packed:
        return _unpack(packed, key, where)
    return AuthConfig(
        username=_text(entry, "username", key, where), password=_text(entry, "password", key, where)
    )


def _text(entry: Mapping[str, object], name: str, key: str, where: str) -> str:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise ProvideError(f"{where}: {name} of {key[:200]!r} is not a string")
    return value or ""


def _unpack(packed: str, key: str, where: str) -> AuthConfig:
    """Return user name and password, decoded from base64 with or without padding."""
    text = packed.strip()
    padding = "" if text.endswith("=") else "=" * (-len(text) % 4)
    pair = ""
    try:
        pair = a2b_base64((text + padding).encode("ascii"), strict_mode=True).decode()
    except (Base64Error, ValueError):
        pass
    username, colon, password = pair.partition(":")
    if not colon:
        raise ProvideError(
            f"{where}: auth of {key[:200]!r} is not base64 of a user name, a colon and a password"
        )
    return AuthConfig(username=username, password=password)
