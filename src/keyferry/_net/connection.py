"""A connection to a server within a deadline: name look-up, TCP, proxy and TLS."""

import socket
from _thread import allocate_lock, start_new_thread

from keyferry._net.errors import NotResolvedError, ProxyError
from keyferry._net.messages import Incoming, encode_request_head
from keyferry._net.proxy import Origin, authorization
from keyferry._net.trust import encode_name

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from keyferry._net.deadline import Deadline

    Address = tuple[int, int, int, str, Any]
    T = TypeVar("T")

__all__ = ["Connection", "connect"]

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
            self._wait()
            data = data[self._socket.send(data) :]

    def receive(self, most_bytes: int = _CHUNK) -> bytes:
        """What has come in, or nothing at the end."""
        self._wait()
        return self._socket.recv(most_bytes)

    def secure(self, context: "ssl.SSLContext", name: str) -> "Connection":
        """Begin TLS with the server called *name*, also inside the TLS of a proxy."""
        import ssl

        if isinstance(self._socket, ssl.SSLSocket):
            return _Nested(self, self._socket, self._deadline, context, name)
        self._wait()
        # An end that TLS did not announce may be anybody's: without a length, half an answer would pass for all of it.
        sock = context.wrap_socket(
            self._socket, server_hostname=encode_name(name), suppress_ragged_eofs=False
        )
        return Connection(sock, self._deadline)

    def certificate(self) -> bytes:
        """The server's certificate as DER; empty where there is no TLS."""
        import ssl

        if not isinstance(self._socket, ssl.SSLSocket):
            return b""
        return self._socket.getpeercert(binary_form=True) or b""

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

    def _wait(self) -> None:
        seconds = self._deadline.remaining()
        self._socket.settimeout(None if seconds == float("inf") else seconds)


class _Nested(Connection):
    """TLS inside the TLS of a proxy: what the ssl module does for a bare socket, done through two buffers."""

    def __init__(
        self,
        outer: Connection,
        sock: "socket.socket",
        deadline: "Deadline",
        context: "ssl.SSLContext",
        name: str,
    ) -> None:
        import ssl

        super().__init__(sock, deadline)
        self._outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=encode_name(name))
        self._pump(self._tls.do_handshake)

    def send(self, data: bytes) -> None:
        """Write all of it."""
        while data:
            data = data[self._pump(lambda rest=data: self._tls.write(rest)) :]  # type: ignore[misc] # a default binds it

    def receive(self, most_bytes: int = _CHUNK) -> bytes:
        """What has come in, or nothing at the end."""
        return self._pump(lambda: self._tls.read(most_bytes))

    def certificate(self) -> bytes:
        """The certificate of the server inside, as DER."""
        return self._tls.getpeercert(binary_form=True) or b""

    def _pump(self, act: "Callable[[], T]") -> "T":
        """Do *act*, moving bytes between the buffers and the connection outside until it is done."""
        import ssl

        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                pass
            finally:
                if self._outgoing.pending:
                    self._outer.send(self._outgoing.read())
            data = self._outer.receive()
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()


def connect(
    origin: Origin,
    *,
    proxy: Origin | None,
    tls: "Callable[[], ssl.SSLContext]",
    proxy_tls: "Callable[[], ssl.SSLContext]",
    deadline: "Deadline",
    connect_seconds: float,
    address: str = "",
    admit: "Callable[[str], None] | None" = None,
    judge: "Callable[[bytes], None] | None" = None,
) -> Connection:
    """Connect to *origin*: through *proxy*, or to another *address* than its host's, if one is given.

    *tls* and *proxy_tls* are asked for a context once there is a connection: loading it takes longer than the way
    there. *admit* is given each address before it is dialled, and raises for one that must not be; so does *judge*
    for the server's certificate, before anything is sent.
    Raises OSError, ValueError or NetworkError.
    """
    first = proxy or origin
    sock = _dial(address or first.host, first.port, deadline.within(connect_seconds), deadline, admit)
    connection = Connection(sock, deadline)
    try:
        if proxy is not None and proxy.scheme == "https":
            connection = connection.secure(proxy_tls(), proxy.host)
        if origin.scheme == "https":
            if proxy is not None:
                _tunnel(connection, origin, proxy)
            connection = connection.secure(tls(), origin.host)
            if judge is not None:
                judge(connection.certificate())
    except BaseException:
        connection.close()
        raise
    return connection


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
    raise problem or NotResolvedError("cannot be reached: its name has no address")


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
    problems: list[Exception] = []
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
            problems.append(NotResolvedError("cannot be reached: its name is not a host name"))
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
        hint = "put them into its URL, in HTTPS_PROXY or proxy-url: http://USER:PASSWORD@HOST:PORT"
        raise ProxyError(problem, hint, str(proxy))
    if head.status != _OK:
        problem = f"the proxy refused a way to {target} with status {head.status}"
        raise ProxyError(problem, subject=str(proxy))
