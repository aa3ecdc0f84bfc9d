"""What a question about images needs, from files, a cluster or a node: the request, pods, secrets, accounts, events."""
