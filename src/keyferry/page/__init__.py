"""The agent's page: what it shows, as values, and these values as HTML."""
