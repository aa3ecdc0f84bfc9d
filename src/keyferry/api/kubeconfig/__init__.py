"""Kubeconfigs, by version; they have no API group."""
