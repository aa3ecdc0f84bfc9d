"""Credentials for a cluster: the exec plugin, its input and output, expiry and renewal."""
