"""A connection to a server within a deadline: name resolution, TCP, proxy and TLS."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from threading import Event, Thread

from keyferry._net.errors import NotResolvedError, ProxyError
from keyferry._net.messages import Incoming, encode_request_head
from keyferry._net.proxy import Origin, authorization

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any, TypeVar

    from keyferry._net.deadline import Deadline

    Address = tuple[int, int, int, str, Any]
    T = TypeVar("T")


_CHUNK = 1 << 16
_OK, _PROXY_LOGIN = 200, 407


class Connection:
    """A bidirectional stream of bytes with a deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._socket = sock
        self._deadline = deadline

    def send(self, data: bytes) -> None:
        """Send all of *data*."""
        # Not sendall, which waits for the full time again for every piece under TLS.
        while data:
            self._wait()
            data = data[self._socket.send(data) :]

    def receive(self, most_bytes: int = _CHUNK) -> bytes:
        """Return the bytes that have arrived, or none at the end."""
        self._wait()
        return self._socket.recv(most_bytes)

    def secure(self, context: ssl.SSLContext, name: str) -> Connection:
        """Start TLS with the server called *name*, if need be inside the TLS of a proxy."""
        import ssl

        if isinstance(self._socket, ssl.SSLSocket):
            return _Nested(self, self._socket, self._deadline, context, name)
        self._wait()
        # Anyone can close the TCP connection. Without the end that TLS announces, a body of unknown length might be
        # truncated unnoticed.
        sock = context.wrap_socket(self._socket, server_hostname=_as_bytes(name), suppress_ragged_eofs=False)
        return Connection(sock, self._deadline)

    def certificate(self) -> bytes:
        """Return the server's certificate as DER; empty without TLS."""
        import ssl

        if not isinstance(self._socket, ssl.SSLSocket):
            return b""
        return self._socket.getpeercert(binary_form=True) or b""

    def abort(self) -> None:
        """Shut the connection down from another thread; a thread that waits on it returns at once."""
        try:
            # Not the method of a TLS socket, after which the other thread would read unencrypted data.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _wait(self) -> None:
        seconds = self._deadline.remaining()
        self._socket.settimeout(None if seconds == float("inf") else seconds)


class _Nested(Connection):
    """TLS inside the TLS of a proxy, through two memory buffers."""

    def __init__(
        self,
        outer: Connection,
        sock: socket.socket,
        deadline: Deadline,
        context: ssl.SSLContext,
        name: str,
    ) -> None:
        import ssl

        super().__init__(sock, deadline)
        self._outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=_as_bytes(name))
        self._pump(self._tls.do_handshake)

    def send(self, data: bytes) -> None:
        """Send all of *data*."""
        while data:
            data = data[self._pump(lambda rest=data: self._tls.write(rest)) :]  # type: ignore[misc] # a default binds it

    def receive(self, most_bytes: int = _CHUNK) -> bytes:
        """Return the bytes that have arrived, or none at the end."""
        return self._pump(lambda: self._tls.read(most_bytes))

    def certificate(self) -> bytes:
        """Return the certificate of the inner server as DER."""
        return self._tls.getpeercert(binary_form=True) or b""

    def _pump(self, act: Callable[[], T]) -> T:
        """Call *act* until it succeeds, moving data between the buffers and the outer connection."""
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
    tls: Callable[[], ssl.SSLContext],
    proxy_tls: Callable[[], ssl.SSLContext],
    deadline: Deadline,
    connect_seconds: float,
    address: str = "",
    check_address: Callable[[str], None] | None = None,
    check_certificate: Callable[[bytes], None] | None = None,
) -> Connection:
    """Connect to *origin*, through *proxy* if given, or to *address* in place of its host if given.

    *tls* and *proxy_tls* are called after the connection is open. *check_address* receives each address before it is
    used, and raises to reject it. *check_certificate* does the same for the server's certificate before any data is
    sent. Raises OSError, ValueError or NetworkError.
    """
    first = proxy or origin
    sock = _dial(address or first.host, first.port, deadline.within(connect_seconds), deadline, check_address)
    connection = Connection(sock, deadline)
    try:
        if proxy is not None and proxy.scheme == "https":
            connection = connection.secure(proxy_tls(), proxy.host)
        if origin.scheme == "https":
            if proxy is not None:
                _tunnel(connection, origin, proxy)
            connection = connection.secure(tls(), origin.host)
            if check_certificate is not None:
                check_certificate(connection.certificate())
    except BaseException:
        connection.close()
        raise
    return connection


def _dial(
    host: str,
    port: int,
    connecting: Deadline,
    deadline: Deadline,
    check_address: Callable[[str], None] | None = None,
) -> socket.socket:
    problem: OSError | None = None
    addresses = _resolve(host, port, deadline)
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        if check_address is not None:
            check_address(str(address[4][0]))
        try:
            # An address that does not respond must leave time for the others.
            return _dial_address(address, connecting.remaining() / min(left, 2))
        except OSError as error:
            problem = error
    raise problem or NotResolvedError("cannot be reached: its name has no address")


def _dial_address(address: Address, seconds: float) -> socket.socket:
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


def _resolve(host: str, port: int, deadline: Deadline) -> Sequence[Address]:
    """Return the addresses of a name; a thread waits for the system's resolver, which has no deadline."""
    found: list[Sequence[Address]] = []
    problems: list[Exception] = []
    done = Event()

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(_as_bytes(host), port, type=socket.SOCK_STREAM))
        except OSError as error:
            problems.append(error)
        except UnicodeError:
            problems.append(NotResolvedError("cannot be reached: its name is not a host name"))
        finally:
            done.set()

    try:
        Thread(target=look_up, daemon=True).start()
    except RuntimeError:
        # No thread is available: look up without a limit.
        look_up()
    if not done.wait(deadline.remaining()):
        raise TimeoutError
    if problems:
        raise problems[0]
    return found[0]


def _tunnel(connection: Connection, origin: Origin, proxy: Origin) -> None:
    """Request a tunnel to the server from the proxy, which then only transfers TLS data."""
    name = f"[{origin.host}]" if ":" in origin.host else origin.host
    target = f"{name}:{origin.port}"
    connection.send(encode_request_head("CONNECT", target, [("Host", target), *authorization(proxy)]))
    # Byte by byte: the data after the head belongs to TLS.
    head = Incoming(lambda: connection.receive(1)).read_head()
    if head.status == _PROXY_LOGIN:
        problem = "the proxy requires a user name and a password"
        hint = "put them into its URL, in HTTPS_PROXY or proxy-url: http://USER:PASSWORD@HOST:PORT"
        raise ProxyError(problem, hint, str(proxy))
    if head.status != _OK:
        problem = f"the proxy refused a connection to {target} with status {head.status}"
        raise ProxyError(problem, subject=str(proxy))


def _as_bytes(host: str) -> str | bytes:
    """Return a host as bytes: a str is encoded by the idna codec, which refuses names that resolvers accept."""
    return host.encode() if host.isascii() else host
