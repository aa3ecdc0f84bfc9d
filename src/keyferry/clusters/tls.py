"""TLS towards a cluster, with client keys that never touch a disk.

OpenSSL, as Python offers it, takes a certificate and key only from a file. On
Linux that file lives in memory: created without a name, sealed against
change, reached through this process's own descriptor, closed once it is read. Where there
is no such thing a pipe serves, which cannot be read twice; on Windows there is
neither, and a client certificate is refused there rather than written out.
"""

import os
import ssl
import sys
from _thread import LockType, allocate_lock
from collections.abc import Callable

from keyferry._net.errors import why_untrusted
from keyferry._net.trust import encode_name, judge_as_go
from keyferry.clusters.auth.pem import find_authorities
from keyferry.errors import ClusterAuthError, EnvironmentProblem

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import Any

Pair = tuple[str, str]

# Where server_hostname stands if it is not given by name; anyio gives none by name.
_SOCKET_NAME_AT, _BIO_NAME_AT = 4, 3


class ClusterContext(ssl.SSLContext):
    """A context for one cluster whose client certificate may change between connections.

    Each new connection is made by an inner context that has the certificate of
    the moment. What clients set on this one (ALPN, verification) is taken over.
    """

    _ca: bytes
    _insecure: bool
    _server_name: str
    _pair: Callable[[], tuple[int, Pair | None]]
    _inner: tuple[object, ssl.SSLContext] | None
    _alpn: list[str]
    _lock: LockType

    @classmethod
    def make(
        cls, *, ca: bytes, insecure: bool, server_name: str, pair: Callable[[], tuple[int, Pair | None]]
    ) -> "ClusterContext":
        """A context that trusts *ca*, or the system's authorities if it is empty.

        *pair* gives the client certificate and key in use, with a number that changes when they do. What
        there is of them now is tried at once; raises ClusterAuthError for what cannot be used.
        """
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context._ca, context._insecure, context._server_name = ca, insecure, server_name
        context._pair, context._inner, context._alpn = pair, None, []
        context._lock = allocate_lock()
        _trust(context, ca, insecure=insecure)
        failure = _try_pair(context, pair()[1])
        if failure is not None:
            raise failure
        return context

    def set_alpn_protocols(self, alpn_protocols: "Any") -> None:
        """Remember the protocols for the connections to come."""
        super().set_alpn_protocols(alpn_protocols)
        self._alpn = list(alpn_protocols)

    def wrap_socket(self, *args: "Any", **kwargs: "Any") -> ssl.SSLSocket:
        """Begin TLS on a socket, with the certificate of the moment."""
        return self._context().wrap_socket(*self._named(args, kwargs, _SOCKET_NAME_AT), **kwargs)

    def wrap_bio(self, *args: "Any", **kwargs: "Any") -> ssl.SSLObject:
        """Begin TLS in memory, as asyncio does, with the certificate of the moment."""
        return self._context().wrap_bio(*self._named(args, kwargs, _BIO_NAME_AT), **kwargs)

    def _named(self, args: "tuple[Any, ...]", kwargs: "dict[str, Any]", at: int) -> "tuple[Any, ...]":
        # tls-server-name is what the certificate is checked against, whatever address is dialled.
        if not self._server_name:
            return args
        name = encode_name(self._server_name)
        if len(args) > at:
            return (*args[:at], name, *args[at + 1 :])
        kwargs["server_hostname"] = name
        return args

    def _context(self) -> ssl.SSLContext:
        number, pair = self._pair()
        key = number, pair is None, self.verify_mode, self.check_hostname, tuple(self._alpn)
        with self._lock:
            if self._inner is None or self._inner[0] != key:
                self._inner = key, self._make_inner(pair)
            return self._inner[1]

    def _make_inner(self, pair: Pair | None) -> ssl.SSLContext:
        inner = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        inner.sslsocket_class, inner.sslobject_class = _ExplainingSocket, _ExplainingObject
        _trust(inner, self._ca, insecure=self._insecure)
        inner.check_hostname = self.check_hostname
        inner.verify_mode = self.verify_mode
        if self._alpn:
            inner.set_alpn_protocols(self._alpn)
        if pair is not None:
            load_pair(inner, *pair)
        return inner


class _ExplainingSocket(ssl.SSLSocket):
    """Says why a server is not trusted in words that name the rule, whatever library passes them on."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the standard library's signature
        """Shake hands."""
        try:
            super().do_handshake(block)
        except ssl.SSLCertVerificationError as error:
            _explain(error)
            raise


class _ExplainingObject(ssl.SSLObject):
    """As ``_ExplainingSocket``, for TLS in memory."""

    def do_handshake(self) -> None:
        """Shake hands."""
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            _explain(error)
            raise


def _explain(error: ssl.SSLCertVerificationError) -> None:
    text = f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {why_untrusted(error)}"
    error.args, error.strerror = (error.errno, text), text


def _trust(context: ssl.SSLContext, ca: bytes, *, insecure: bool) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    judge_as_go(context)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not ca:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_authorities(context, ca)


def _load_authorities(context: ssl.SSLContext, ca: bytes) -> None:
    """Trust the certificates in *ca*; as in Go, what cannot be read beside one that can is passed over.

    They are handed to OpenSSL without their PEM, in which it would ask the terminal for a pass phrase.
    """
    loaded = 0
    for certificate in find_authorities(ca):
        try:
            context.load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError):
            continue
        loaded += 1
    if not loaded:
        message = "certificate-authority holds no PEM certificate that can be read"
        raise _unusable(message, "unable to load root certificates")


def load_pair(context: ssl.SSLContext, certificate_pem: str, key_pem: str) -> None:
    """Give *context* a client certificate and key without writing them to a disk."""
    if sys.platform == "win32":
        raise _unusable("client certificates cannot be used on Windows without writing the key to a disk")
    load = _load_from_memory if hasattr(os, "memfd_create") else _load_from_pipes
    try:
        load(context, certificate_pem.encode(), key_pem.encode())
    except ssl.SSLError as error:
        problem = error.reason or "unknown"
    else:
        return
    raise _unusable(f"the client certificate and key cannot be used: {problem}")


def _try_pair(context: ssl.SSLContext, pair: Pair | None) -> ClusterAuthError | None:
    """Give *context* a pair; what is wrong with it is returned, without the frames that hold the key."""
    try:
        if pair is not None:
            load_pair(context, *pair)
    except ClusterAuthError as error:
        return error.with_traceback(None)
    return None


def _refuse_pass_phrase() -> str:
    """Stand for the pass phrase of a key: without this OpenSSL would ask for one on the terminal, and wait."""
    message = (
        "the client key, or its certificate, is encrypted, expected one without a pass phrase; "
        "'openssl pkey -in KEY -out DECRYPTED' takes it off"
    )
    raise _unusable(message, "tls: failed to parse private key")


def _unusable(message: str, kubernetes_text: str = "") -> ClusterAuthError:
    """What is wrong with the kubeconfig's part: no server was asked."""
    return ClusterAuthError("", message, kubernetes_text, EnvironmentProblem(message, kubernetes_text))


def _load_from_memory(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Linux: an unnamed file in memory, sealed, and gone when it is closed."""
    import fcntl

    fd = os.memfd_create("keyferry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        _write_all(fd, certificate.rstrip() + b"\n" + key)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=_refuse_pass_phrase)
    finally:
        os.close(fd)


def _load_from_pipes(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """For macOS and other systems with /dev/fd: one pipe each, written by a thread while OpenSSL reads."""
    pipes = [_fed_pipe(certificate), _fed_pipe(key)]
    try:
        chain, private = (f"/dev/fd/{fd}" for fd in pipes)
        context.load_cert_chain(chain, private, _refuse_pass_phrase)
    finally:
        for fd in pipes:
            os.close(fd)


def _fed_pipe(data: bytes) -> int:
    from threading import Thread

    ours, theirs = os.pipe()

    def feed() -> None:
        try:
            _write_all(theirs, data)
        except BrokenPipeError:
            pass
        finally:
            os.close(theirs)

    Thread(target=feed, daemon=True).start()
    return ours


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
