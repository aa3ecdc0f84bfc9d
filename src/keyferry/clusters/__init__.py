"""Credentials for clusters: kubeconfigs, client configurations, and exec plugins."""
