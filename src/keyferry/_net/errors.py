"""Why a server cannot be asked or its answer not be read: one type for each way in which that fails.

Code decides by the type; the words are for people, and hold nothing of a request or an answer.
"""

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import ssl


__all__ = [
    "BundleError",
    "ClosedEarlyError",
    "MalformedAnswerError",
    "NetworkError",
    "NotResolvedError",
    "ProxyError",
    "RefusedError",
    "RequestError",
    "TimedOutError",
    "TlsError",
    "TooLongError",
    "UnreachableError",
    "UntrustedError",
    "UrlError",
    "WrongNameError",
    "explain",
    "why_untrusted",
]

# OpenSSL's codes for a certificate that is not for the host, or the address, that was asked for.
_OTHER_NAME = (62, 64)


class NetworkError(Exception):
    """The base of them all; *subject* is what is at fault, empty for the server that was asked.

    One that *is_final* ends in the same way, however often the request is sent.
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
    """The name of the server, or of the proxy, has no address."""


class RefusedError(NetworkError):
    """Nobody listens at the address."""


class UnreachableError(NetworkError):
    """The system has no way to the address."""


class TimedOutError(NetworkError):
    """Name look-up, connection, handshake, head or body took longer than it may, or came too slowly."""


class TlsError(NetworkError):
    """The server does not speak TLS, or not in a way that we do."""


class UntrustedError(NetworkError):
    """Nobody whom we trust vouches for the server's certificate."""

    is_final = True


class WrongNameError(UntrustedError):
    """The certificate is for another name."""


class ClosedEarlyError(NetworkError):
    """The connection ended before the answer did."""


class MalformedAnswerError(NetworkError):
    """Bytes that are not an HTTP answer; none of them is quoted."""


class TooLongError(NetworkError):
    """An answer with more bytes than the caller takes."""

    is_final = True


class ProxyError(NetworkError):
    """A proxy that refuses the way to the server."""


class UrlError(NetworkError):
    """A URL that is not one of a server, or of a proxy."""

    is_final = True


class BundleError(NetworkError):
    """A bundle of certificates that cannot be read."""

    is_final = True


class RequestError(NetworkError):
    """A request with characters that HTTP cannot carry; nothing was sent."""

    is_final = True


def explain(error: Exception, proxy: object = None) -> NetworkError:
    """What *error* means, as a new error: the frames of the old one hold headers and bodies."""
    found = error if isinstance(error, NetworkError) else _classify(error)
    via = f" (through the proxy {proxy})" if proxy is not None and not found.subject else ""
    return type(found)(found.problem + via, found.hint, found.subject)


def _classify(error: Exception) -> NetworkError:
    if isinstance(error, TimeoutError):
        return TimedOutError("no answer in time")
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
    if isinstance(error, ssl.SSLEOFError):
        return ClosedEarlyError("the connection broke off")
    if isinstance(error, ssl.SSLError):
        return TlsError(f"TLS failed: {(error.reason or 'unknown').replace('_', ' ').lower()}")
    return None


def _classify_system(error: Exception) -> NetworkError:
    import socket

    if isinstance(error, socket.gaierror):
        return NotResolvedError("cannot be reached: its name cannot be resolved")
    text = (isinstance(error, OSError) and (error.strerror or str(error))) or "the request cannot be sent"
    problem = f"cannot be reached: {text[:1].lower()}{text[1:]}"
    if isinstance(error, ConnectionRefusedError):
        return RefusedError(problem)
    return ClosedEarlyError(problem) if isinstance(error, ConnectionError) else UnreachableError(problem)


def why_untrusted(error: "ssl.SSLCertVerificationError") -> str:
    """Why a certificate is not trusted, in OpenSSL's words, and the rule where it is a matter of its names."""
    reason = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAME:
        return f"{reason}; only its subject alternative names count, a common name does not"
    return reason
