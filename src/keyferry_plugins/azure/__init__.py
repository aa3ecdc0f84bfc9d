"""What the plugins of Azure share: clouds, identities, Entra's token calls, and the registry's exchange."""
