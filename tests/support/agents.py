"""The node agent for tests: tokens, processes, and a client that speaks HTTP over a Unix socket."""

import json
from base64 import urlsafe_b64encode


def make_token(expires: object, signature: str = "signature", **claims: object) -> str:
    """Return a token of a service account as an API server writes it; nobody here verifies it."""
    named = {"aud": ["registry"], "sub": "system:serviceaccount:ns:builder", **claims}
    if expires is not None:
        named["exp"] = int(expires) if isinstance(expires, float) and expires < 1e18 else expires
    parts = (json.dumps({"alg": "RS256"}), json.dumps(named), signature)
    return ".".join(urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)
