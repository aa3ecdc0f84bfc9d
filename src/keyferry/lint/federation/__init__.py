"""A FederationConfig: its own problems, and those that only it and the provider config together show."""
