"""Lookup of registry credentials as in the kubelet: config, match, provider, keyring, lookup."""
