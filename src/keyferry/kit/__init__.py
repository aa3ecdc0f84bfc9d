"""The conformance kit: whether a plugin, in whatever language, is what the kubelet or client-go expects."""
