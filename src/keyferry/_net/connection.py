"""A connection to a server within a deadline: name look-up, TCP, proxy and TLS."""

import socket
from _thread import allocate_lock, start_new_thread

from keyferry._net.messages import Incoming, MalformedAnswerError, encode_request_head
from keyferry._net.proxy import Origin, authorization
from keyferry._net.trust import why_untrusted
from keyferry.errors import HttpError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from typing import Any

    from keyferry._net.deadline import Deadline

    Address = tuple[int, int, int, str, Any]

__all__ = ["Connection", "connect", "describe"]

_CHUNK = 1 << 16
_OK, _PROXY_LOGIN = 200, 407


class Connection:
    """A stream of bytes both ways, until a deadline."""

    def __init__(self, sock: "socket.socket", deadline: "Deadline") -> None:
        self._socket = sock
        self._deadline = deadline

    def send(self, data: bytes) -> None:
        """Write all of it."""
        # Not sendall: under TLS it would wait anew for every piece.
        while data:
            self._socket.settimeout(self._deadline.remaining())
            data = data[self._socket.send(data) :]

    def receive(self, most_bytes: int = _CHUNK) -> bytes:
        """What has come in, or nothing at the end."""
        self._socket.settimeout(self._deadline.remaining())
        return self._socket.recv(most_bytes)

    def abort(self) -> None:
        """End it from another thread: whoever waits on it comes back at once."""
        try:
            # Not the method of a TLS socket, which would have the other thread read the bare stream.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """End it."""
        self._socket.close()


def connect(
    origin: Origin,
    *,
    proxy: Origin | None,
    tls: "Callable[[], ssl.SSLContext]",
    deadline: "Deadline",
    connect_seconds: float,
    address: str = "",
    admit: "Callable[[str], None] | None" = None,
) -> Connection:
    """Connect to *origin*: through *proxy*, or to another *address* than its host's, if one is given.

    *tls* is asked for a context once there is a connection: loading it takes longer than the way there.
    *admit* is given each address before it is dialled, and raises for one that must not be.
    Raises OSError, or MalformedAnswerError for a proxy that does not speak HTTP.
    """
    first = proxy or origin
    sock = _dial(address or first.host, first.port, deadline.within(connect_seconds), deadline, admit)
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


def _dial(
    host: str,
    port: int,
    connecting: "Deadline",
    deadline: "Deadline",
    admit: "Callable[[str], None] | None" = None,
) -> "socket.socket":
    problem: OSError | None = None
    addresses = _resolve(host, port, deadline)
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        if admit is not None:
            admit(str(address[4][0]))
        try:
            # Not all of the time for an address that does not answer, while others are left.
            return _dial_address(address, connecting.remaining() / min(left, 2))
        except OSError as error:
            problem = error
    raise problem or OSError("its name has no address")


def _dial_address(address: "Address", seconds: float) -> "socket.socket":
    family, kind, protocol, _, target = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(seconds)
        sock.connect(target)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _resolve(host: str, port: int, deadline: "Deadline") -> "Sequence[Address]":
    """The addresses of a name. The system's resolver knows no deadline, so a thread of its own waits for it."""
    found: list[Sequence[Address]] = []
    problems: list[OSError] = []
    done = allocate_lock()
    done.acquire()

    def look_up() -> None:
        try:
            # As bytes: for a str the codec of international names is loaded, which costs more than the look-up.
            name = host.encode() if host.isascii() else host
            found.append(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
        except OSError as error:
            problems.append(error)
        except UnicodeError:
            problems.append(OSError("its name is not a host name"))
        finally:
            done.release()

    try:
        start_new_thread(look_up, ())
    except RuntimeError:
        # No thread to be had: better without a limit than not at all.
        look_up()
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
    head = Incoming(lambda: connection.receive(1)).read_head()
    if head.status == _PROXY_LOGIN:
        problem = "the proxy wants a user name and a password"
        raise HttpError(str(proxy), problem, "put them into HTTPS_PROXY: http://USER:PASSWORD@HOST:PORT")
    if head.status != _OK:
        raise HttpError(str(proxy), f"the proxy refused a way to {target} with status {head.status}")


def _secure(
    sock: "socket.socket", context: "ssl.SSLContext", name: str, deadline: "Deadline"
) -> "socket.socket":
    import ssl

    if isinstance(sock, ssl.SSLSocket):
        raise HttpError(
            f"https://{name}", "TLS inside the TLS of a proxy is not supported; use an http:// proxy"
        )
    sock.settimeout(deadline.remaining())
    # An end that TLS did not announce may be anybody's: without a length, half an answer would pass for all of it.
    return context.wrap_socket(sock, server_hostname=name, suppress_ragged_eofs=False)


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
        return f"its certificate is not trusted: {why_untrusted(error)}"
    if isinstance(error, ssl.SSLEOFError):
        return "the connection broke off"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {(error.reason or 'unknown').replace('_', ' ').lower()}"
    return ""


def _describe_system(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    text = (isinstance(error, OSError) and (error.strerror or str(error))) or "the request cannot be sent"
    return f"cannot be reached: {text[:1].lower()}{text[1:]}"
