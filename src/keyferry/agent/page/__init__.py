"""The agent's page: who may see it, what is on it, and its server on loopback."""
