"""Pods and the objects they depend on, from files or from a cluster: containers, pull secrets, accounts, events."""
