"""The refresh state machine: when a credential is used, renewed or waited for, to the nanosecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.state import RefreshState, Step
from keyferry.errors import PluginError

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND
ERROR = PluginError("plugin", "failed")


def holding(expires_ns: int | None = None, *, backs_off: bool = True) -> RefreshState:
    """A state with one credential."""
    state = RefreshState(backs_off=backs_off)
    state.succeed(ClusterCredential("t", expires_ns=expires_ns))
    return state


@pytest.mark.parametrize(
    ("expires_ns", "now_ns", "step"),
    [
        pytest.param(None, NOW, Step.USE, id="without an expiry it never ends"),
        pytest.param(None, 2**63, Step.USE, id="not even in the far future"),
        pytest.param(NOW, NOW - 1, Step.USE, id="a nanosecond before"),
        pytest.param(NOW, NOW, Step.USE, id="at its very expiry"),
        pytest.param(NOW, NOW + 1, Step.RUN, id="a nanosecond after"),
        pytest.param(0, NOW, Step.RUN, id="ended in 1970"),
    ],
)
def test_a_credential_is_good_up_to_and_including_its_expiry(
    expires_ns: int | None, now_ns: int, step: Step
) -> None:
    assert holding(expires_ns).decide(now_ns, 0) is step


def test_without_a_credential_the_plugin_is_run() -> None:
    assert RefreshState().decide(NOW, 0) is Step.RUN


@given(expires=st.integers(0, 2**63), now=st.integers(0, 2**63))
def test_expiry_is_a_comparison_and_nothing_else(expires: int, now: int) -> None:
    expected = Step.USE if now <= expires else Step.RUN
    assert holding(expires).decide(now, 0) is expected


def test_a_refusal_counts_only_against_the_current_credential() -> None:
    state = holding()
    refused = state.credential
    assert refused is not None
    assert state.decide_after_refusal(refused, 0) is Step.RUN
    state.succeed(ClusterCredential("u"))
    assert state.decide_after_refusal(refused, 0) is Step.USE


def test_a_credential_that_reads_the_same_is_another_one() -> None:
    """A plugin may answer the same token again; a request under way with the older object is not the newer's fault."""
    state = holding()
    equal = ClusterCredential("t")
    assert state.credential == equal
    assert state.decide_after_refusal(equal, 0) is Step.USE


def fail(state: RefreshState, times: int, at_ns: int = 0) -> None:
    for _ in range(times):
        state.fail(ERROR, at_ns)


@pytest.mark.parametrize(
    ("failures", "pause_seconds"),
    [(1, 0), (2, 0.5), (3, 1), (4, 2), (5, 4), (6, 8), (7, 16), (8, 30), (9, 30), (30, 30), (10_000, 30)],
)
def test_the_pause_grows_from_the_second_failure_on_and_ends_at_half_a_minute(
    failures: int, pause_seconds: float
) -> None:
    state = RefreshState()
    fail(state, failures, at_ns=5 * SECOND)
    end = 5 * SECOND + int(pause_seconds * SECOND)
    if pause_seconds:
        assert state.decide(NOW, end - 1) is Step.PAUSE
    assert state.decide(NOW, end) is Step.RUN


def test_a_refusal_waits_out_the_pause_as_well() -> None:
    state = holding()
    fail(state, 2)
    assert state.credential is not None
    assert state.decide_after_refusal(state.credential, 0) is Step.PAUSE
    assert state.decide_after_refusal(state.credential, SECOND) is Step.RUN


def test_a_credential_that_is_good_is_used_whatever_failed() -> None:
    """As in client-go, a failed refresh after a 401 leaves the old credential in use."""
    state = holding()
    fail(state, 5)
    assert state.decide(NOW, 0) is Step.USE


def test_success_ends_the_pause_and_forgets_the_failures() -> None:
    state = RefreshState()
    fail(state, 6)
    state.succeed(ClusterCredential("t", expires_ns=NOW))
    assert (state.error, state.failures) == (None, 0)
    assert state.decide(NOW + 1, 0) is Step.RUN
    fail(state, 1)
    assert state.decide(NOW + 1, 0) is Step.RUN


def test_without_back_off_every_request_runs_the_plugin() -> None:
    """That is client-go's own way."""
    state = RefreshState(backs_off=False)
    fail(state, 100)
    assert state.decide(NOW, 0) is Step.RUN
    assert state.error is ERROR


A, B, NONE = ClusterCredential("t", "A", "k"), ClusterCredential("t", "B", "k"), ClusterCredential("t")


@pytest.mark.parametrize(
    ("answers", "changes"),
    [
        pytest.param([A], [False], id="the first is no change"),
        pytest.param([A, A], [False, False], id="the same again"),
        pytest.param([A, B, B], [False, True, False], id="another"),
        pytest.param([A, NONE], [False, True], id="none any more"),
        pytest.param([NONE, A], [False, True], id="one at last"),
        pytest.param([NONE, ClusterCredential("u")], [False, False], id="another token"),
    ],
)
def test_a_changed_certificate_is_counted(answers: list[ClusterCredential], changes: list[bool]) -> None:
    state = RefreshState()
    assert [state.succeed(answer) for answer in answers] == changes
    assert state.certificates == sum(changes)


def test_an_unusable_certificate_lends_its_expiry_to_the_old_credential() -> None:
    """A quirk of client-go that is kept: the expiry is stored before the key pair is looked at."""
    state = holding(NOW)
    state.postpone(NOW + SECOND)
    assert state.decide(NOW + SECOND, 0) is Step.USE
    state.postpone(None)
    assert state.decide(2**63, 0) is Step.USE
