"""Which of several failures is the cause."""

from __future__ import annotations

from keyferry.errors import ContainerRuntimeError, Kind
from keyferry.pulls.operation import pull_error
from keyferry.pulls.trial import Attempt
from support.pulling import refusal

IMAGE, NAME = "reg.io/team/app:v1", "reg.io/team/app"


def test_what_says_more_than_a_refusal_is_the_cause() -> None:
    """One credential was refused, the other came further: the image is not there."""
    missing = ContainerRuntimeError("s", "NOT_FOUND", "x: not found", Kind.NOT_FOUND)
    attempts = tuple(Attempt(credential=None, error=error) for error in (refusal(), missing, refusal()))
    error = pull_error(IMAGE, attempts)
    assert error.kind == "not-found"
    assert error.kubernetes_text == "[401 Unauthorized, rpc error: code = NotFound desc = x: not found]"
    assert pull_error(IMAGE, attempts[:1]).kind == "refused"
