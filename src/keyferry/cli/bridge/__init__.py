"""``keyferry bridge``: the kubelet and docker's tools on the node agent."""
