"""Managed identity in Service Fabric: a server with a certificate of its own making, known by its thumbprint."""

from keyferry.sdk import HttpError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPSConnection

    from keyferry.sdk import Deadline
    from keyferry.sdk.http import Reply

__all__ = ["ask_service_fabric"]

_MOST_BYTES = 1 << 20


def ask_service_fabric(
    environ: "Mapping[str, str]", fields: "Mapping[str, str]", deadline: "Deadline"
) -> "Reply":
    """The answer of the node's token service; the secret is sent only to the certificate that is expected."""
    from http.client import HTTPException

    from keyferry.sdk.forms import encode_query
    from keyferry.sdk.http import Reply

    endpoint = environ["IDENTITY_ENDPOINT"]
    connection, path, shown = _open(endpoint, deadline)
    mark = "&" if "?" in path else "?"
    headers = {"Secret": environ["IDENTITY_HEADER"], "Accept": "application/json"}
    try:
        connection.connect()
        problem = _check(connection, environ["IDENTITY_SERVER_THUMBPRINT"])
        if not problem:
            connection.request("GET", f"{path}{mark}{encode_query(fields)}", headers=headers)
            answer = connection.getresponse()
            received = tuple((name.lower(), value) for name, value in answer.getheaders())
            return Reply(shown, answer.status, received, answer.read(_MOST_BYTES))
    except (OSError, HTTPException, ValueError) as error:
        problem = _describe(error)
    finally:
        connection.close()
    # Raised out here on purpose: the frames of what was caught hold the secret.
    raise HttpError(shown, problem)


def _open(endpoint: str, deadline: "Deadline") -> "tuple[HTTPSConnection, str, str]":
    import ssl
    from http.client import HTTPSConnection

    scheme, _, rest = endpoint.partition("://")
    place, slash, path = rest.partition("/")
    shown = f"{scheme}://{place}{slash}{path.partition('?')[0]}"
    if scheme.lower() != "https" or not place or "@" in place:
        raise HttpError("IDENTITY_ENDPOINT", "is not an https:// URL")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nobody vouches for this certificate; its thumbprint is compared before anything is sent.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        seconds = deadline.within(15).remaining()
    except TimeoutError:
        raise HttpError(shown, "no answer in time", "", is_timeout=True) from None
    return HTTPSConnection(place, timeout=seconds, context=context), slash + path or "/", shown


def _check(connection: "HTTPSConnection", thumbprint: str) -> str:
    from hashlib import sha1
    from hmac import compare_digest

    certificate = connection.sock.getpeercert(binary_form=True)
    found = sha1(certificate or b"", usedforsecurity=False).hexdigest()
    wanted = thumbprint.replace(":", "").strip().lower()
    is_right = compare_digest(found.encode(), wanted.encode("utf-8", "replace"))
    return "" if is_right else "its certificate is not the one that IDENTITY_SERVER_THUMBPRINT names"


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"cannot be asked: {type(error).__name__}"
