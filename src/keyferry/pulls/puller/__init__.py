"""Pull images as the kubelet does: credentials in order, back-off, pull policy and outcome."""
