"""Read, merge and validate kubeconfigs, and resolve a context to a client configuration."""
