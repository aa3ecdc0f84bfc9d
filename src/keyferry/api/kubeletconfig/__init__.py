"""The API group ``kubelet.config.k8s.io``: credential provider configs and pull records."""
