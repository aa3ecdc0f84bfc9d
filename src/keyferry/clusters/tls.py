"""TLS connections to a cluster, with client keys that are never written to a disk.

Python's ``ssl`` loads a certificate and key only from a path. On Linux the path is that of a sealed file in
memory without a name, which is closed after it is read. On other POSIX systems it is that of a pipe, which
can be read only once. Windows has neither, so client certificates are refused there.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable
from threading import Lock, Thread

from keyferry._core.files import write_all
from keyferry._net.errors import why_untrusted
from keyferry._net.trust import judge_as_go
from keyferry.clusters.auth.pem import find_authorities
from keyferry.errors import ClusterAuthError, EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Pair = tuple[str, str]

# The positions of server_hostname; anyio does not pass it by keyword.
_SOCKET_NAME_AT, _BIO_NAME_AT = 4, 3


class ClusterContext(ssl.SSLContext):
    """A TLS context for one cluster whose client certificate may change between connections.

    Each new connection is made by an inner context with the current certificate. The inner
    context gets the settings that clients make on this one (ALPN, verification).
    """

    _ca: bytes
    _insecure: bool
    _server_name: str
    _pair: Callable[[], tuple[int, Pair | None]]
    _inner: tuple[object, ssl.SSLContext] | None
    _alpn: list[str]
    _lock: Lock

    @classmethod
    def make(
        cls, *, ca: bytes, insecure: bool, server_name: str, pair: Callable[[], tuple[int, Pair | None]]
    ) -> ClusterContext:
        """Return a context that trusts *ca*, or the system's authorities if it is empty.

        *pair* returns the current client certificate and key, and a number that changes with them. They are
        loaded once now. Raises ClusterAuthError if the authorities or the pair cannot be used.
        """
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context._ca, context._insecure, context._server_name = ca, insecure, server_name
        context._pair, context._inner, context._alpn = pair, None, []
        context._lock = Lock()
        _trust(context, ca, insecure=insecure)
        failure = _try_pair(context, pair()[1])
        if failure is not None:
            raise failure
        return context

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        """Set the protocols for new connections."""
        super().set_alpn_protocols(alpn_protocols)
        self._alpn = list(alpn_protocols)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Wrap a socket, using the current certificate."""
        return self._context().wrap_socket(*self._named(args, kwargs, _SOCKET_NAME_AT), **kwargs)

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Wrap memory buffers, as asyncio does, using the current certificate."""
        return self._context().wrap_bio(*self._named(args, kwargs, _BIO_NAME_AT), **kwargs)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any], at: int) -> tuple[Any, ...]:
        # The server's certificate is checked against tls-server-name, regardless of the address.
        if not self._server_name:
            return args
        name = self._server_name
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
    """A TLS socket whose verification errors name the failed rule, so that every library shows it."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the standard library's signature
        """Perform the handshake."""
        try:
            super().do_handshake(block)
        except ssl.SSLCertVerificationError as error:
            _explain(error)
            raise


class _ExplainingObject(ssl.SSLObject):
    """The same as ``_ExplainingSocket`` for memory buffers."""

    def do_handshake(self) -> None:
        """Perform the handshake."""
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
    """Trust the certificates in *ca*. As in Go, invalid ones are skipped if at least one is valid.

    OpenSSL gets them in DER form, because it prompts for a passphrase on the terminal for encrypted PEM.
    """
    loaded = 0
    for certificate in find_authorities(ca):
        try:
            context.load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError):
            continue
        loaded += 1
    if not loaded:
        message = "certificate-authority contains no valid PEM certificate"
        raise _unusable(message, "unable to load root certificates")


def check_authorities(ca: bytes) -> None:
    """Raise ClusterAuthError if *ca* has no valid certificate."""
    _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca)


def load_pair(context: ssl.SSLContext, certificate_pem: str, key_pem: str) -> None:
    """Load a client certificate and key into *context* without writing them to a disk."""
    if sys.platform == "win32":
        raise _unusable("client certificates cannot be used on Windows without writing the key to a disk")
    load = _load_from_memory if hasattr(os, "memfd_create") else _load_from_pipes
    try:
        load(context, certificate_pem.encode(), key_pem.encode())
    except ssl.SSLError as error:
        reason = error.reason or ""
    else:
        return
    raise _unusable(
        f"the client certificate and key cannot be used: {_why_unusable(certificate_pem, key_pem, reason)}"
    )


def _why_unusable(certificate_pem: str, key_pem: str, reason: str) -> str:
    """Return why OpenSSL rejects a pair; it gives no *reason* for text that is not PEM."""
    if "-----BEGIN CERTIFICATE-----" not in certificate_pem:
        return "client-certificate contains no certificate in PEM"
    if "PRIVATE KEY-----" not in key_pem:
        return "client-key contains no private key in PEM"
    if reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return reason.replace("_", " ").lower() or "the PEM of one of them is damaged"


def _try_pair(context: ssl.SSLContext, pair: Pair | None) -> ClusterAuthError | None:
    """Load *pair* into *context*; return the error without its traceback, whose frames hold the key."""
    try:
        if pair is not None:
            load_pair(context, *pair)
    except ClusterAuthError as error:
        return error.with_traceback(None)
    return None


def _refuse_pass_phrase() -> str:
    """Raise ClusterAuthError; used as password callback, without which OpenSSL prompts on the terminal."""
    message = (
        "the client key or its certificate is encrypted, expected PEM without a passphrase; "
        "'openssl pkey -in KEY -out DECRYPTED' removes it from a key"
    )
    raise _unusable(message, "tls: failed to parse private key")


def _unusable(message: str, kubernetes_text: str = "") -> ClusterAuthError:
    """Return an error in the kubeconfig's TLS settings, without a server."""
    return ClusterAuthError("", message, kubernetes_text, EnvironmentProblem(message, kubernetes_text))


def _load_from_memory(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load from a sealed file in memory without a name, which exists until it is closed (Linux)."""
    import fcntl

    fd = os.memfd_create("keyferry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        write_all(fd, certificate.rstrip() + b"\n" + key)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=_refuse_pass_phrase)
    finally:
        os.close(fd)


def _load_from_pipes(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load from two pipes, which threads write while OpenSSL reads (macOS and others with /dev/fd)."""
    pipes = [_fed_pipe(certificate), _fed_pipe(key)]
    try:
        chain, private = (f"/dev/fd/{fd}" for fd, _ in pipes)
        context.load_cert_chain(chain, private, _refuse_pass_phrase)
    finally:
        for fd, _ in pipes:
            os.close(fd)
        # A writer ends when nobody reads its pipe any more; then its own end is closed, too.
        for _, writer in pipes:
            writer.join()


def _fed_pipe(data: bytes) -> tuple[int, Thread]:
    ours, theirs = os.pipe()

    def feed() -> None:
        try:
            write_all(theirs, data)
        except BrokenPipeError:
            pass
        finally:
            os.close(theirs)

    writer = Thread(target=feed, daemon=True)
    writer.start()
    return ours, writer
