"""The kubelet and docker's tools on the node agent, and back."""
