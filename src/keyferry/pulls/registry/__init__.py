"""A registry client: addresses, challenges, tokens, manifests, checks."""
