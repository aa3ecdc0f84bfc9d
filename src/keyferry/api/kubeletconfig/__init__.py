"""The kubelet configuration group: the credential provider config."""
