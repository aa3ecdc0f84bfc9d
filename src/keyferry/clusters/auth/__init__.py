"""Credentials for a cluster: exec plugins, their input and output, expiry and renewal."""
