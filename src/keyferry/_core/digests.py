"""SHA-256 without OpenSSL, whose import takes a tenth of a start."""

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["sha256_of"]


def sha256_of(chunks: "Iterable[bytes]") -> str:
    """Return the digest of all chunks together, in hexadecimal."""
    try:
        # Since Python 3.12; neither module has a stub.
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    digest = sha256()
    for chunk in chunks:
        digest.update(chunk)
    return str(digest.hexdigest())
