"""What a runtime's words mean."""

from __future__ import annotations

import pytest

from keyferry.errors import ContainerRuntimeError, Kind
from keyferry.pulls.cri import classify

PULL = 'failed to pull and unpack image "R": failed to resolve reference "R": '


@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        (
            "UNKNOWN",
            PULL + "pulling from host H failed with status code [manifests v1]: 401 Unauthorized",
            "refused",
        ),
        (
            "UNKNOWN",
            PULL + "pulling from host H failed with status code [manifests v1]: 403 Forbidden",
            "refused",
        ),
        (
            "UNKNOWN",
            PULL + "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized",
            "refused",
        ),
        (
            "UNKNOWN",
            PULL
            + "pull access denied, repository does not exist or may require authorization: server message: "
            "insufficient_scope: authorization failed",
            "refused",
        ),
        ("UNKNOWN", "reading manifest v1 in H/a: unauthorized: authentication required", "refused"),
        ("UNKNOWN", "unable to retrieve auth token: invalid username/password: unauthorized", "refused"),
        ("UNAUTHENTICATED", "who are you", "refused"),
        ("NOT_FOUND", PULL + "R: not found", "not-found"),
        ("UNKNOWN", "reading manifest nope in H/a: manifest unknown", "not-found"),
        (
            "UNKNOWN",
            PULL + 'failed to do request: Head "http://H/v2/": dial tcp H: connect: connection refused',
            "unreachable",
        ),
        ("UNKNOWN", PULL + "failed to do request: dial tcp: lookup r.io on x: no such host", "unreachable"),
        (
            "UNKNOWN",
            PULL
            + 'failed to do request: Head "https://H/v2/": http: server gave HTTP response to HTTPS client',
            "unreachable",
        ),
        (
            "UNKNOWN",
            PULL + "pulling from host H failed with status code [manifests v1]: 503 Service",
            "error",
        ),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", "timeout"),
        ("UNAVAILABLE", "failed to connect to all addresses", "unreachable"),
        ("UNKNOWN", "", "error"),
    ],
)
def test_a_failure_is_told_by_code_or_words(code: str, said: str, kind: str) -> None:
    """A refusal, a missing image and an unreachable registry are different answers."""
    assert classify(code, said) == kind


def test_the_error_has_kubernetes_words() -> None:
    """What the kubelet would log can be searched for."""
    error = ContainerRuntimeError("/run/c.sock", "DEADLINE_EXCEEDED", "too slow", Kind.TIMEOUT)
    assert error.kubernetes_text == "rpc error: code = DeadlineExceeded desc = too slow"
    assert str(error) == "container runtime: too slow"
