"""A login for any registry that trusts an OpenID Connect issuer: the subject token, the calls, the lifetime."""
