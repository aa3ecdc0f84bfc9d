"""Collectors of metrics for Prometheus, importable without a server."""
