"""The conformance kit: tests whether a plugin, in any language, meets the rules of the kubelet or client-go."""
