"""Whom to trust in TLS, at the least cost: a system's bundle of authorities takes longer to load than all the rest.

Systems keep their authorities twice: in one file, which is read whole, and in a folder, where one is looked up
by a hash of its name when it is needed. The folder alone is tried first. What it does not know is tried again with
all that the system trusts, so that in the end the same certificates are accepted as ever.
"""

import os
import sys

from keyferry._core.values import Value
from keyferry._net.errors import BundleError, UntrustedError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import ssl

__all__ = ["Thumbprint", "Tls", "Trust", "default_context", "encode_name", "judge_as_go"]

# A line in the head of a PEM block that is encrypted.
_ENCRYPTED = "Proc-Type:"


class Trust(Value):
    """*ca_file* is a bundle to trust in place of the system's, *ca_data* such a bundle as PEM text.

    One that *is_insecure* trusts any certificate.
    """

    ca_file: str = ""
    ca_data: str = ""
    is_insecure: bool = False


class Thumbprint(Value):
    """The SHA-1 of the one certificate that is trusted, in hexadecimal, and the setting that names it."""

    digest: str
    setting: str

    def check(self, certificate: bytes) -> None:
        """Raise UntrustedError for any other certificate, given as DER."""
        from hashlib import sha1
        from hmac import compare_digest

        found = sha1(certificate, usedforsecurity=False).hexdigest()
        wanted = self.digest.replace(":", "").strip().lower()
        if not compare_digest(found.encode(), wanted.encode("utf-8", "replace")):
            raise UntrustedError(
                f"its certificate is not the one that {self.setting} names",
                "a renewed certificate has another thumbprint",
            )


class Tls:
    """The client's side of TLS for the attempts of one request; its context is made when it is first needed."""

    __slots__ = ("_context", "_is_narrow", "_trust")

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._is_narrow = False

    def context(self) -> "ssl.SSLContext":
        """The context to use now; raises BundleError for a bundle that cannot be read."""
        if self._context is None:
            folder = _folder() if self._trust == Trust() else ""
            self._context = _narrow(folder) if folder else _full(self._trust)
            self._is_narrow = bool(folder)
        return self._context

    def widen(self) -> bool:
        """Trust all that the system trusts from now on; False if that is so already."""
        was_narrow, self._is_narrow = self._is_narrow, False
        if was_narrow:
            self._context = _full(self._trust)
        return was_narrow


def _folder() -> str:
    """The system's folder of authorities, if it has one that is laid out for look-ups.

    Whoever names a bundle in SSL_CERT_FILE means that one: it is the first to look into, not the second.
    """
    import ssl

    paths = ssl.get_default_verify_paths()
    folder = "" if os.environ.get(paths.openssl_cafile_env) else paths.capath or ""
    try:
        with os.scandir(folder or ".") as entries:
            # Eight hexadecimal digits of a hash, and a number.
            is_hashed = any(entry.name[8:] == ".0" for entry in entries)
    except OSError:
        return ""
    return folder if folder and is_hashed else ""


def _narrow(folder: str) -> "ssl.SSLContext":
    import ssl

    # As ssl.create_default_context makes it, which cannot be told to leave the bundle alone.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if sys.version_info >= (3, 13):
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(capath=folder)
    judge_as_go(context)
    return context


def judge_as_go(context: "ssl.SSLContext") -> None:
    """Let *context* judge servers' certificates as Go's programs do; every context of ours goes through here.

    A server's name counts only as a subject alternative name: Go has not looked at the common name since 1.15.
    A certificate that breaks a rule of form is taken, as Python did up to 3.12: many a private authority is
    without a key identifier.
    """
    import ssl

    context.hostname_checks_common_name = False
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT


def encode_name(name: str) -> str | bytes:
    """A server's name for a TLS context: as bytes where it needs no other spelling.

    For a str the ssl module loads the codec of international names, which costs a start more than a millisecond.
    """
    labels = name.split(".")
    # What that codec refuses, it may go on refusing.
    is_plain = name.isascii() and all(0 < len(label) < 64 for label in labels)
    return name.encode() if is_plain else name


def default_context(ca_file: str = "", ca_data: str = "") -> "ssl.SSLContext":
    """A context that trusts a bundle, or the system's authorities; raises OSError or ValueError for a bad bundle."""
    import ssl

    if _ENCRYPTED in ca_data:
        raise ValueError  # OpenSSL would ask for its pass phrase on the terminal
    context = ssl.create_default_context(cafile=ca_file or None, cadata=ca_data or None)
    judge_as_go(context)
    return context


def _full(trust: Trust) -> "ssl.SSLContext":
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
    subject = f"the CA bundle {trust.ca_file!r}" if trust.ca_file else "the CA bundle given"
    raise BundleError(problem, subject=subject)
