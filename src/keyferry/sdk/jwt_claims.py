"""Read the header and the claims of a JSON web token, unverified; errors do not quote the token."""

from __future__ import annotations

from keyferry._core.jwt_claims import JwtError, decode_segment, read_claims, read_header

__all__ = ["JwtError", "decode_segment", "read_claims", "read_header"]
