"""A connection to a cluster's server: proxy, TLS, and a deadline.

What waits in a channel waits until its deadline and not, as with a bare socket, for each byte anew.
"""

import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote

from keyferry._core.secrets import printable
from keyferry._net.messages import Incoming, encode_request_head
from keyferry._net.trust import default_context
from keyferry.clusters.url import Url, parse_url

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 1 << 16
_PORTS = {"http": 80, "https": 443}
_OK = 200
_LONGEST_REASON = 200
_T = TypeVar("_T")


class Stream(Protocol):
    """What a socket can do, as far as a channel needs it."""

    def settimeout(self, value: float | None, /) -> None:
        """Wait at most so many seconds."""

    def recv_into(self, buffer: "WriteableBuffer", /) -> int:
        """Read what there is; nothing at the end."""

    def sendall(self, data: bytes, /) -> None:
        """Write all of it."""

    def close(self) -> None:
        """End the connection."""


class Refused(Exception):
    """Why no connection could be made, in words."""


class Channel:
    """A stream with a deadline."""

    def __init__(self, stream: Stream, deadline: float) -> None:
        self._stream = stream
        self._deadline: float | None = deadline
        self._idle: float | None = None

    def await_each(self, seconds: float | None) -> None:
        """From now on there is no deadline; only silence of *seconds* ends the wait, and None never does."""
        self._deadline, self._idle = None, seconds

    def sendall(self, data: bytes) -> None:
        """Write all of it."""
        self._stream.settimeout(self._wait())
        self._stream.sendall(data)

    def receive(self, most: int = _CHUNK) -> bytes:
        """Read what there is; nothing at the end."""
        self._stream.settimeout(self._wait())
        buffer = bytearray(most)
        return bytes(buffer[: self._stream.recv_into(buffer)])

    def shut(self) -> None:
        """End the connection."""
        self._stream.close()

    def _wait(self) -> float | None:
        return self._idle if self._deadline is None else _remaining(self._deadline)


def open_channel(url: Url, proxy: Url | None, tls: Callable[[], ssl.SSLContext], deadline: float) -> Channel:
    """Connect to the server of *url*, through *proxy* if there is one; *tls* is asked for with https only.

    Raises OSError, or Refused for what is not a matter of the network.
    """
    # First of all: what is wrong with a key or an authority needs no server to be told.
    context = tls() if url.scheme == "https" else None
    first = url if proxy is None else proxy
    stream: Stream = _dial(*address(first), deadline)
    try:
        if proxy is not None and proxy.scheme == "https":
            stream = _wrap(stream, default_context(), address(proxy)[0], deadline)
        if context is not None:
            if proxy is not None:
                _tunnel(Channel(stream, deadline), url, proxy)
            stream = _wrap(stream, context, address(url)[0], deadline)
    except BaseException:
        stream.close()
        raise
    return Channel(stream, deadline)


def address(url: Url) -> tuple[str, int]:
    """Host and port, without brackets and with the port of the scheme where none is given."""
    name, colon, port = url.host.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = url.host, ""
    return unquote(name.removeprefix("[").removesuffix("]")), int(port or _PORTS.get(url.scheme, 80))


def choose_proxy(url: Url, configured: str) -> Url | None:
    """The kubeconfig's proxy, or else what the environment names for *url*; raises Refused for a strange one."""
    text = configured or _environment_proxy(url)
    if not text:
        return None
    proxy = parse_url(text)
    if proxy is None or not proxy.host:
        raise Refused("the proxy is not a URL")
    if proxy.scheme not in _PORTS:
        raise Refused(f"a proxy with {proxy.scheme}:// is not supported here, only with http:// and https://")
    return proxy


def proxy_authorization(proxy: Url) -> dict[str, str]:
    """The header for the user and password in the proxy's URL."""
    user_info, at, _ = (proxy.authority or "").rpartition("@")
    if not at:
        return {}
    name, _, password = user_info.partition(":")
    pair = f"{unquote(name)}:{unquote(password)}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(pair).decode()}"}


def _environment_proxy(url: Url) -> str:
    names = (f"{url.scheme}_proxy", f"{url.scheme}_proxy".upper())
    found = next(filter(None, map(os.environ.get, names)), "")
    host, _ = address(url)
    # Go, and so client-go, never asks a proxy for this machine itself.
    if not found or host == "localhost" or _is_loopback(host):
        return ""
    # Of the same name on every system, but for Windows and macOS, where it asks the system as well.
    from urllib.request import proxy_bypass

    if proxy_bypass(url.host):
        return ""
    return found if "://" in found else f"http://{found}"


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _dial(host: str, port: int, deadline: float) -> socket.socket:
    problem: OSError | None = None
    for family, kind, protocol, _, target in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_remaining(deadline))
            sock.connect(target)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            problem = problem or error
            sock.close()
        else:
            return sock
    raise problem or OSError("the name has no address")


def _tunnel(channel: Channel, url: Url, proxy: Url) -> None:
    """Ask the proxy for a way through to the server; from then on it sees only TLS."""
    host, port = address(url)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    headers = {"Host": target, **proxy_authorization(proxy)}
    channel.sendall(encode_request_head("CONNECT", target, list(headers.items())))
    # Byte by byte: what follows the head belongs to TLS.
    head = Incoming(lambda: channel.receive(1)).read_head()
    if head.status != _OK:
        raise Refused(f"the proxy said {head.status} {printable(head.reason)[:_LONGEST_REASON]}")


def _wrap(stream: Stream, context: ssl.SSLContext, name: str, deadline: float) -> Stream:
    stream.settimeout(_remaining(deadline))
    if isinstance(stream, socket.socket) and not isinstance(stream, ssl.SSLSocket):
        return context.wrap_socket(stream, server_hostname=name)
    return _Nested(stream, context, name)


class _Nested:
    """TLS inside the TLS of a proxy: what the ssl module does for a bare socket, done through two buffers."""

    def __init__(self, outer: Stream, context: ssl.SSLContext, name: str) -> None:
        self._outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._pump(self._tls.do_handshake)

    def settimeout(self, value: float | None, /) -> None:
        self._outer.settimeout(value)

    def recv_into(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer)
        try:
            return int(self._pump(lambda: self._tls.read(len(view), view)))  # bytes read, with a buffer
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return 0

    def sendall(self, data: bytes, /) -> None:
        view = memoryview(data)
        while view:
            view = view[self._pump(lambda rest=view: self._tls.write(rest)) :]  # type: ignore[misc] # a default binds it

    def close(self) -> None:
        self._outer.close()

    def _pump(self, act: Callable[[], _T]) -> _T:
        """Do *act*, moving bytes between the buffers and the stream outside until it is done."""
        chunk = bytearray(_CHUNK)
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                pass
            finally:
                if self._outgoing.pending:
                    self._outer.sendall(self._outgoing.read())
            size = self._outer.recv_into(chunk)
            if size:
                self._incoming.write(chunk[:size])
            else:
                self._incoming.write_eof()


def _remaining(deadline: float) -> float:
    seconds = deadline - monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
