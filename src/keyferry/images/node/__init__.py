"""This machine as a node: its kubelets, their settings, and the location of the provider config."""
