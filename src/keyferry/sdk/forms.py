"""Percent-encoding for forms, queries and paths."""

from __future__ import annotations

from keyferry._net.forms import (
    decode_percent,
    encode_form,
    encode_form_text,
    encode_percent,
    encode_query,
)

__all__ = ["decode_percent", "encode_form", "encode_form_text", "encode_percent", "encode_query"]
