"""A connection to a server within a deadline: name look-up, TCP, proxy and TLS."""

import socket
from _thread import allocate_lock, start_new_thread

from keyferry._http import Incoming, MalformedAnswerError, encode_request_head
from keyferry.errors import HttpError
from keyferry.sdk.proxy import Origin, authorization

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from typing import Any

    from keyferry.sdk.deadline import Deadline

    Address = tuple[int, int, int, str, Any]

__all__ = ["Connection", "connect", "describe"]

_CHUNK = 1 << 16
_OK = 200


class Connection:
    """A stream of bytes both ways, until a deadline."""

    def __init__(self, sock: "socket.socket", deadline: "Deadline") -> None:
        self._socket = sock
        self._deadline = deadline

    def send(self, data: bytes) -> None:
        """Write all of it."""
        self._socket.settimeout(self._deadline.remaining())
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """What has come in, or nothing at the end."""
        self._socket.settimeout(self._deadline.remaining())
        return self._socket.recv(_CHUNK)

    def close(self) -> None:
        """End it."""
        self._socket.close()


def connect(  # noqa: PLR0913 - what can differ between two connections
    origin: Origin,
    *,
    proxy: Origin | None,
    tls: "Callable[[], ssl.SSLContext]",
    deadline: "Deadline",
    connect_seconds: float,
    address: str = "",
) -> Connection:
    """Connect to *origin*: through *proxy*, or to another *address* than its host's, if one is given.

    Raises OSError, or MalformedAnswerError for a proxy that does not speak HTTP.
    """
    first = proxy or origin
    sock = _dial(address or first.host, first.port, deadline.within(connect_seconds), deadline)
    try:
        if proxy is not None and proxy.scheme == "https":
            sock = _secure(sock, tls(), proxy.host, deadline)
        if origin.scheme == "https":
            if proxy is not None:
                _tunnel(Connection(sock, deadline), origin, proxy)
            sock = _secure(sock, tls(), origin.host, deadline)
    except BaseException:
        sock.close()
        raise
    return Connection(sock, deadline)


def _dial(host: str, port: int, connecting: "Deadline", deadline: "Deadline") -> "socket.socket":
    problem: OSError | None = None
    addresses = _resolve(host, port, deadline)
    for family, kind, protocol, _, target in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            # Not all of the time for an address that does not answer, while others are left.
            sock.settimeout(connecting.remaining() / (1 if problem or len(addresses) == 1 else 2))
            sock.connect(target)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            problem = error
            sock.close()
        else:
            return sock
    raise problem or OSError("its name has no address")


def _resolve(host: str, port: int, deadline: "Deadline") -> "Sequence[Address]":
    """The addresses of a name. The system's resolver knows no deadline, so a thread of its own waits for it."""
    found: list[Sequence[Address]] = []
    problems: list[OSError] = []
    done = allocate_lock()
    done.acquire()

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            problems.append(error)
        except UnicodeError:
            problems.append(OSError("its name is not a host name"))
        finally:
            done.release()

    start_new_thread(look_up, ())
    if not done.acquire(timeout=deadline.remaining()):
        raise TimeoutError
    if problems:
        raise problems[0]
    return found[0]


def _tunnel(connection: Connection, origin: Origin, proxy: Origin) -> None:
    """Ask the proxy for a way through to the server; from then on it sees only TLS."""
    name = f"[{origin.host}]" if ":" in origin.host else origin.host
    target = f"{name}:{origin.port}"
    connection.send(encode_request_head("CONNECT", target, [("Host", target), *authorization(proxy)]))
    # Byte by byte: what follows the head belongs to TLS.
    head = Incoming(lambda: _one_byte(connection)).read_head()
    if head.status != _OK:
        raise HttpError(str(proxy), f"the proxy refused a way to {target} with status {head.status}")


def _one_byte(connection: Connection) -> bytes:
    connection._socket.settimeout(connection._deadline.remaining())  # noqa: SLF001 - a part of this module
    return connection._socket.recv(1)  # noqa: SLF001


def _secure(
    sock: "socket.socket", context: "ssl.SSLContext", name: str, deadline: "Deadline"
) -> "socket.socket":
    import ssl

    if isinstance(sock, ssl.SSLSocket):
        raise HttpError(
            f"https://{name}", "TLS inside the TLS of a proxy is not supported; use an http:// proxy"
        )
    sock.settimeout(deadline.remaining())
    return context.wrap_socket(sock, server_hostname=name)


def describe(error: Exception) -> str:
    """What went wrong on the way to a server, in words that hold nothing of a request or an answer."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, MalformedAnswerError):
        return str(error)
    return _describe_tls(error) or _describe_system(error)


def _describe_tls(error: Exception) -> str:
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or 'unknown').replace('_', ' ').lower()}"
    return ""


def _describe_system(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    text = (isinstance(error, OSError) and (error.strerror or str(error))) or "the request cannot be sent"
    return f"cannot be reached: {text[:1].lower()}{text[1:]}"
