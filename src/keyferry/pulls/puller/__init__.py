"""Pull as the kubelet pulls: credentials in order, back-off, policy, outcome."""
