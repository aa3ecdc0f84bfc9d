"""``keyferry.dev``: how a token of an OpenID Connect issuer becomes a login at a registry."""
