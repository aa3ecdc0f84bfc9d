"""Redacted records of one exchange, and their replay."""
