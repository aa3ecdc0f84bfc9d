"""Signatures that several clouds use: JSON web tokens, and AWS' Signature Version 4."""
