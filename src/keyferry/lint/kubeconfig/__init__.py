"""Rules for kubeconfigs."""
