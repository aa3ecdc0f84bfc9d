"""Prometheus collectors, which can be imported without a server."""
