"""Registry credentials as the kubelet finds them: config, match, provider, cache, keyring, lookup."""
