"""The demo: ``keyferry demo``."""
