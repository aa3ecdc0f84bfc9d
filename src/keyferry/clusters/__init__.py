"""Credentials for clusters: kubeconfigs, what they resolve to, and the plugins they name."""
