"""Shared parts of the Azure plugins: clouds, identities, Entra's token requests, and the registry's exchange."""
