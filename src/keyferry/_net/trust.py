"""Trusted authorities for TLS, loaded at low cost: a system's CA bundle takes longer to load than all the rest.

Systems store their authorities twice: in one file, which is read as a whole, and in a folder, where an authority is
looked up by a hash of its name. The folder alone is tried first. A certificate that it does not verify is tried again
with everything the system trusts, so that the same certificates are accepted in the end.
"""

from __future__ import annotations

import os
import sys

from keyferry._core.values import Value
from keyferry._net.errors import BundleError, UntrustedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl


# A header line of an encrypted PEM block.
_ENCRYPTED = "Proc-Type:"


# Where systems have their bundle, in the order in which Go's programs look, as the container runtime is one.
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Trust(Value):
    """The trusted authorities: *ca_file* is a bundle to use in place of the system's, *ca_data* one as PEM text.

    With *is_insecure*, any certificate is trusted.
    """

    ca_file: str = ""
    ca_data: str = ""
    is_insecure: bool = False


class Thumbprint(Value):
    """The SHA-1 of the only trusted certificate, in hexadecimal, and the setting that contains it."""

    digest: str
    setting: str

    def check(self, certificate: bytes) -> None:
        """Raise UntrustedError unless *certificate*, given as DER, has the thumbprint."""
        from hashlib import sha1
        from hmac import compare_digest

        found = sha1(certificate, usedforsecurity=False).hexdigest()
        wanted = self.digest.replace(":", "").strip().lower()
        if not compare_digest(found.encode(), wanted.encode("utf-8", "replace")):
            raise UntrustedError(
                f"its certificate does not have the thumbprint that {self.setting} sets",
                "a renewed certificate has another thumbprint",
            )


class Tls:
    """The TLS client settings for all attempts of one request; the context is created when it is first needed."""

    __slots__ = ("_context", "_is_narrow", "_trust")

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._is_narrow = False

    def context(self) -> ssl.SSLContext:
        """Return the context to use; raise BundleError for a bundle that cannot be read."""
        if self._context is None:
            folder = _folder() if self._trust == Trust() else ""
            self._context = _narrow(folder) if folder else _full(self._trust)
            self._is_narrow = bool(folder)
        return self._context

    def widen(self) -> bool:
        """Trust everything the system trusts from now on; return False if that is the case already."""
        was_narrow, self._is_narrow = self._is_narrow, False
        if was_narrow:
            self._context = _full(self._trust)
        return was_narrow


def _folder() -> str:
    """Return the system's folder of authorities, if it has one with hashed names, else an empty string.

    If SSL_CERT_FILE names a bundle, that is used first, and the folder is not.
    """
    import ssl

    paths = ssl.get_default_verify_paths()
    folder = "" if os.environ.get(paths.openssl_cafile_env) else paths.capath or ""
    try:
        with os.scandir(folder or ".") as entries:
            # Eight hexadecimal digits of a hash, then a number.
            is_hashed = any(entry.name[8:] == ".0" for entry in entries)
    except OSError:
        return ""
    return folder if folder and is_hashed else ""


def _narrow(folder: str) -> ssl.SSLContext:
    import ssl

    # As ssl.create_default_context does, which cannot leave out the bundle.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if sys.version_info >= (3, 13):
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(capath=folder)
    judge_as_go(context)
    return context


def judge_as_go(context: ssl.SSLContext) -> None:
    """Make *context* check servers' certificates as Go does; every context of keyferry is passed to this function.

    A server's name must be a subject alternative name: Go ignores the common name since 1.15. A certificate that is not
    strictly well-formed is accepted, as in Python up to 3.12, because many private authorities have no key identifier.
    A connection that ends without TLS' own farewell was cut off, and is an error: the Python of Debian 12 takes it for
    the end of the answer unless it is told not to.
    """
    import ssl

    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    context.hostname_checks_common_name = False
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT


def default_context(ca_file: str = "", ca_data: str = "") -> ssl.SSLContext:
    """Return a context that trusts a bundle, or the system's; raise OSError or ValueError for an invalid one."""
    import ssl

    if _ENCRYPTED in ca_data:
        raise ValueError  # OpenSSL would prompt for a pass phrase on the terminal
    context = ssl.create_default_context(
        cafile=ca_file or _missed_bundle(ca_data) or None, cadata=ca_data or None
    )
    judge_as_go(context)
    return context


def _missed_bundle(ca_data: str) -> str:
    """Return the system's bundle if OpenSSL, which may be built for another system, does not look for it there."""
    import ssl

    paths = ssl.get_default_verify_paths()
    is_set = {paths.openssl_cafile_env, paths.openssl_capath_env} & os.environ.keys()
    if ca_data or is_set or paths.cafile or paths.capath:
        return ""
    return next(filter(os.path.isfile, SYSTEM_BUNDLES), "")


def _full(trust: Trust) -> ssl.SSLContext:
    import ssl

    try:
        context = default_context(trust.ca_file, trust.ca_data)
    except FileNotFoundError:
        problem = "does not exist"
    except (OSError, TypeError, ValueError):
        problem = "cannot be read as a bundle of certificates"
    else:
        if trust.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
    subject = f"the CA bundle {trust.ca_file!r}" if trust.ca_file else "the given CA bundle"
    raise BundleError(problem, subject=subject)
