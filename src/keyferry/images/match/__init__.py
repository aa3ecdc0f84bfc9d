"""Which pattern covers which image, by the kubelet's rules."""
