"""OpenID Connect for a plugin: find the endpoints, get a token by one of several grants, verify it, keep it."""
