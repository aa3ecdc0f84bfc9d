"""Network errors, with one type for each kind of failure.

Code decides by the type. The messages are for people, and contain no part of a request or a response.
"""

from __future__ import annotations

import socket

from keyferry._core.gotext import go_strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl


# OpenSSL's codes for a certificate that does not match the requested host or address.
_OTHER_NAME = (62, 64)


class NetworkError(Exception):
    """The base class; *subject* is what failed, empty for the server of the request.

    With *is_final*, sending the request again has the same result.
    """

    is_final = False

    def __init__(self, problem: str, hint: str = "", subject: str = "") -> None:
        super().__init__(problem, hint, subject)
        self.problem = problem
        self.hint = hint
        self.subject = subject

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}" if self.subject else self.problem


class NotResolvedError(NetworkError):
    """The name of the server or of the proxy has no address."""


class RefusedError(NetworkError):
    """No server listens at the address."""


class UnreachableError(NetworkError):
    """There is no route to the address."""


class TimedOutError(NetworkError):
    """Name resolution, connection, handshake, head or body took longer than its limit, or was too slow."""


class TlsError(NetworkError):
    """The server does not support TLS, or no common version or cipher."""


class UntrustedError(NetworkError):
    """The server's certificate is not issued by a trusted authority."""

    is_final = True


class WrongNameError(UntrustedError):
    """The certificate is for another name."""


class ClosedEarlyError(NetworkError):
    """The connection was closed before the end of the response."""


class MalformedAnswerError(NetworkError):
    """The data is not an HTTP response; the message does not quote it."""


class TooLongError(NetworkError):
    """The response is longer than the caller allows."""

    is_final = True


class ProxyError(NetworkError):
    """The proxy refuses to connect to the server."""


class UrlError(NetworkError):
    """The text is not the URL of a server or a proxy."""

    is_final = True


class BundleError(NetworkError):
    """The CA bundle cannot be read."""

    is_final = True


class RequestError(NetworkError):
    """The request has characters that HTTP does not allow; nothing was sent."""

    is_final = True


def explain(error: Exception, proxy: object = None) -> NetworkError:
    """Return *error* as a new NetworkError, without the frames of the old one, which hold headers and bodies."""
    found = error if isinstance(error, NetworkError) else _classify(error)
    via = f" (through the proxy {proxy})" if proxy is not None and not found.subject else ""
    return type(found)(found.problem + via, found.hint, found.subject)


def _classify(error: Exception) -> NetworkError:
    if isinstance(error, TimeoutError):
        return TimedOutError("no response in time")
    return _classify_tls(error) or _classify_system(error)


def _classify_tls(error: Exception) -> NetworkError | None:
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        problem = f"its certificate is not trusted: {why_untrusted(error)}"
        if error.verify_code in _OTHER_NAME:
            return WrongNameError(
                problem, "have it issued with this name among its subject alternative names"
            )
        return UntrustedError(problem)
    # Debian 12's Python (3.11.2) raises a plain SSLError for what OpenSSL 3 calls an unexpected end.
    if isinstance(error, ssl.SSLEOFError) or (
        isinstance(error, ssl.SSLError) and error.reason == "UNEXPECTED_EOF_WHILE_READING"
    ):
        return ClosedEarlyError("the connection was cut off")
    if isinstance(error, ssl.SSLError):
        return TlsError(f"TLS failed: {(error.reason or 'unknown').replace('_', ' ').lower()}")
    return None


def _classify_system(error: Exception) -> NetworkError:
    if isinstance(error, socket.gaierror):
        return NotResolvedError("cannot be reached: its name cannot be resolved")
    text = go_strerror(error) if isinstance(error, OSError) else "the request cannot be sent"
    problem = f"cannot be reached: {text}"
    if isinstance(error, ConnectionRefusedError):
        return RefusedError(problem)
    return ClosedEarlyError(problem) if isinstance(error, ConnectionError) else UnreachableError(problem)


def why_untrusted(error: ssl.SSLCertVerificationError) -> str:
    """Return OpenSSL's reason for rejecting a certificate, and the rule if its names do not match."""
    reason = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAME:
        return f"{reason}; only its subject alternative names count, a common name does not"
    return reason
