"""Commands about clusters: ``keyferry kube``."""
