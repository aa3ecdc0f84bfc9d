"""Kubeconfigs, which belong to no group, by version."""
