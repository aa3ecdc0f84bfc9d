"""Shims in the kubelet's folder of plugins: install, remove, look at."""
