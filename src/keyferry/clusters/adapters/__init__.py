"""Adapters of cluster sessions to HTTP libraries; each one requires its extra."""
