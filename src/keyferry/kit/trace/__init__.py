"""Traces: one request and its response without secrets, and their replay."""
