"""Reaching a server with the standard library alone, at the least start-up: deadlines, proxies, connections, TLS."""
