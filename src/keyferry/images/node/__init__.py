"""This machine as a node: the kubelets that run on it, what they are set to, and where the provider config is."""
