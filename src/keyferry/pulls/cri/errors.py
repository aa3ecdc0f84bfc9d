"""Classify the pull failures of container runtimes, by status code and, where that is not enough, by message."""

from keyferry.errors import Kind

__all__ = ["classify"]

# The codes that are specific enough.
_CODES = {
    "UNAUTHENTICATED": Kind.REFUSED,
    "PERMISSION_DENIED": Kind.REFUSED,
    "NOT_FOUND": Kind.NOT_FOUND,
    "DEADLINE_EXCEEDED": Kind.TIMEOUT,
    "UNAVAILABLE": Kind.UNREACHABLE,
}
# Other failures are classified by the messages of containerd and CRI-O, which send most failures as UNKNOWN. The order
# matters: for a private repository that the registry hides, the message is "does not exist or may require
# authorization", which is a refusal.
_WORDS = (
    (Kind.REFUSED, "401 unauthorized"),
    (Kind.REFUSED, "403 forbidden"),
    (Kind.REFUSED, "pull access denied"),
    (Kind.REFUSED, "insufficient_scope"),
    (Kind.REFUSED, "authorization failed"),
    (Kind.REFUSED, "failed to authorize"),
    (Kind.REFUSED, "authentication required"),
    (Kind.REFUSED, "unauthorized:"),
    (Kind.REFUSED, "is not authorized"),
    (Kind.REFUSED, "invalid username/password"),
    (Kind.REFUSED, "requested access to the resource is denied"),
    (Kind.REFUSED, "no basic auth credentials"),
    (Kind.NOT_FOUND, ": not found"),
    (Kind.NOT_FOUND, "manifest unknown"),
    (Kind.NOT_FOUND, "name unknown"),
    (Kind.TIMEOUT, "deadline exceeded"),
    (Kind.TIMEOUT, "i/o timeout"),
    (Kind.UNREACHABLE, "connection refused"),
    (Kind.UNREACHABLE, "no such host"),
    (Kind.UNREACHABLE, "connection reset"),
    (Kind.UNREACHABLE, "failed to do request"),
    (Kind.UNREACHABLE, "tls: "),
    (Kind.UNREACHABLE, "x509: "),
)


def classify(code: str, said: str) -> Kind:
    """Return the kind of a failure: refused, not found, unreachable, timeout, or error."""
    known = _CODES.get(code)
    if known is not None:
        return known
    words = said.lower()
    return next((kind for kind, mark in _WORDS if mark in words), Kind.ERROR)
