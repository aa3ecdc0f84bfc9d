"""kubectl's preferences (kuberc); only the policy for credential plugins is read."""
