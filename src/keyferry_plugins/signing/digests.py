"""SHA-256 and HMAC from the interpreter's own module; hashlib loads OpenSSL, a fifth of a run without TLS."""

__all__ = ["hmac_sha256", "sha256"]

_BLOCK_BYTES = 64
_INNER = bytes(value ^ 0x36 for value in range(256))
_OUTER = bytes(value ^ 0x5C for value in range(256))


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 digest of *data*."""
    try:
        from _sha2 import sha256 as new  # type: ignore[import-not-found] # its place since 3.12
    except ImportError:
        try:
            from _sha256 import sha256 as new  # type: ignore[import-not-found] # its place before 3.12
        except ImportError:
            # Some systems build the interpreter without its own hash modules.
            from hashlib import sha256 as new
    digest: bytes = new(data).digest()
    return digest


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """Return the HMAC-SHA-256 of *data*."""
    block = (sha256(key) if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
    return sha256(block.translate(_OUTER) + sha256(block.translate(_INNER) + data))
