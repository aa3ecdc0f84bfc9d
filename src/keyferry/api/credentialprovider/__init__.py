"""Requests to and responses from image credential provider plugins."""
