"""What a container runtime means when a pull fails: its status codes do not tell, only its words do."""

__all__ = ["MISSING", "OTHER", "REFUSED", "TIMEOUT", "UNREACHABLE", "classify"]

REFUSED, MISSING, UNREACHABLE, TIMEOUT, OTHER = "refused", "missing", "unreachable", "timeout", "other"

# By code where a runtime gives an honest one.
_CODES = {
    "UNAUTHENTICATED": REFUSED,
    "PERMISSION_DENIED": REFUSED,
    "NOT_FOUND": MISSING,
    "DEADLINE_EXCEEDED": TIMEOUT,
    "UNAVAILABLE": UNREACHABLE,
}
# Else by the words of containerd and CRI-O, in this order: a private repository that the registry hides says
# "does not exist or may require authorization", which is a refusal.
_WORDS = (
    (REFUSED, "401 unauthorized"),
    (REFUSED, "403 forbidden"),
    (REFUSED, "pull access denied"),
    (REFUSED, "insufficient_scope"),
    (REFUSED, "authorization failed"),
    (REFUSED, "failed to authorize"),
    (REFUSED, "authentication required"),
    (REFUSED, "unauthorized:"),
    (REFUSED, "is not authorized"),
    (REFUSED, "invalid username/password"),
    (REFUSED, "requested access to the resource is denied"),
    (REFUSED, "no basic auth credentials"),
    (MISSING, ": not found"),
    (MISSING, "manifest unknown"),
    (MISSING, "name unknown"),
    (TIMEOUT, "deadline exceeded"),
    (TIMEOUT, "i/o timeout"),
    (UNREACHABLE, "connection refused"),
    (UNREACHABLE, "no such host"),
    (UNREACHABLE, "connection reset"),
    (UNREACHABLE, "failed to do request"),
    (UNREACHABLE, "tls: "),
    (UNREACHABLE, "x509: "),
)


def classify(code: str, said: str) -> str:
    """What a failure is: refused, missing, unreachable, timeout or other."""
    known = _CODES.get(code)
    if known is not None:
        return known
    words = said.lower()
    return next((kind for kind, mark in _WORDS if mark in words), OTHER)
