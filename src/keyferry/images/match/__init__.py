"""Matching of patterns and images by the kubelet's rules."""
