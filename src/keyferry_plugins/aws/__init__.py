"""Shared parts of the AWS plugins: credentials and their sources, endpoints, signatures, calls."""
