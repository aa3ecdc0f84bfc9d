"""Explain why a context works or does not."""
