"""OpenID Connect for a plugin: discover the endpoints, obtain a token by one of several grants, verify and cache it."""
