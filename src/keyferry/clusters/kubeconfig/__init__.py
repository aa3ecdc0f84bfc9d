"""Kubeconfigs: read, judged, merged, chosen from, validated, resolved to what a client needs."""
