"""Which credentials are tried, in which order, and when a provider is asked once more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keyferry.errors import ContainerRuntimeError, KeyferryError, Kind, PluginError, RegistryError
from keyferry.images.answer import Failure
from keyferry.images.keyring import Credential, Source, SourceKind
from keyferry.pulls.trial import AttemptResult, Renewal, Trial
from support.pulling import refusal

HERE = AttemptResult(image_ref="sha256:id")


def of(provider: str, password: str, kind: SourceKind = SourceKind.PROVIDER) -> Credential:
    return Credential(
        username="user", password=password, source=Source(kind=kind, name=provider), key="reg.io"
    )


def taking(
    *passwords: str, error: Callable[[], KeyferryError] = refusal
) -> Callable[[Credential | None], AttemptResult]:
    def pull(credential: Credential | None) -> AttemptResult:
        if ("" if credential is None else credential.password) in passwords:
            return HERE
        raise error()

    return pull


class Giving:
    """A provider that is asked once more: gives what it is told to, and counts."""

    def __init__(self, *credentials: Credential, failures: tuple[Failure, ...] = ()) -> None:
        self.renewal = Renewal(credentials=credentials, failures=failures)
        self.asked: list[str] = []

    def __call__(self, refused: Credential) -> Renewal:
        """Ask it."""
        self.asked.append(refused.password)
        return self.renewal


def tried(trial: Trial) -> list[tuple[str, bool, bool]]:
    return [
        ("" if each.credential is None else each.credential.password, each.worked, each.is_renewed)
        for each in trial.attempts
    ]


def test_each_is_tried_in_order_until_one_works() -> None:
    """What comes after it is not."""
    trial = Trial(taking("c", "d"))
    assert trial.run([of("p", each) for each in "abcd"]) == HERE
    assert tried(trial) == [("a", False, False), ("b", False, False), ("c", True, False)]


def test_nobody_is_tried_only_if_there_is_nothing_else() -> None:
    """One anonymous attempt, or none."""
    trial = Trial(taking(""))
    assert trial.run([]) == HERE
    assert tried(trial) == [("", True, False)]
    trial = Trial(taking(""))
    assert trial.run([of("p", "a")]) is None
    assert tried(trial) == [("a", False, False)]


def test_whatever_the_failure_the_next_is_tried() -> None:
    """As in the kubelet: a registry that cannot be reached now may be a moment later."""
    trial = Trial(taking("b", error=lambda: RegistryError("reg.io", 0, "gone", Kind.UNREACHABLE)))
    assert trial.run([of("p", "a"), of("p", "b")]) == HERE
    assert [each.kind for each in trial.attempts] == ["unreachable", None]


def test_a_refused_credential_is_renewed_and_what_comes_takes_the_place_of_all_its_providers() -> None:
    """Right away, before those of others; the provider's other old ones are not tried at all."""
    giving = Giving(of("p", "new"), of("p", "newer"))
    trial = Trial(taking("other"), giving)
    assert trial.run([of("p", "old"), of("p", "old too"), of("q", "other")]) == HERE
    assert tried(trial) == [
        ("old", False, False),
        ("new", False, True),
        ("newer", False, True),
        ("other", True, False),
    ]
    assert giving.asked == ["old"]


def test_a_provider_is_asked_once_more_and_never_again() -> None:
    """Also if what it gives then is refused; another provider is asked for itself."""
    giving = Giving(of("p", "new"))
    trial = Trial(taking("nothing"), giving)
    assert trial.run([of("p", "old"), of("q", "x")]) is None
    assert giving.asked == ["old", "x"]
    assert [password for password, _, _ in tried(trial)] == ["old", "new", "x"]


def test_the_same_again_is_not_tried_twice() -> None:
    """A plugin that gives what was refused has said it all."""
    trial = Trial(taking("nothing"), Giving(of("p", "old")))
    assert trial.run([of("p", "old")]) is None
    assert tried(trial) == [("old", False, False)]


def test_a_provider_that_has_nothing_more_leaves_the_rest_to_be_tried() -> None:
    """Why it had nothing is kept."""
    failure = Failure(provider="p", error=PluginError("p", "down"))
    trial = Trial(taking("old too"), Giving(failures=(failure,)))
    assert trial.run([of("p", "old"), of("p", "old too")]) == HERE
    assert trial.renewals == [failure]


def test_only_a_refusal_of_a_providers_credential_is_a_reason_to_ask_again() -> None:
    """Neither secrets nor other failures are."""
    giving = Giving(of("p", "new"))
    missing = lambda: ContainerRuntimeError("s", "NOT_FOUND", "x: not found", Kind.NOT_FOUND)  # noqa: E731 - short
    Trial(taking("nothing", error=missing), giving).run([of("p", "old")])
    Trial(taking("nothing"), giving).run([of("ns/s", "old", SourceKind.PULL_SECRET)])
    Trial(taking("nothing"), giving).run([])
    assert giving.asked == []


def test_errors_are_kept_without_the_frames_that_hold_credentials() -> None:
    """Nobody who holds an outcome holds a password by that."""
    trial = Trial(taking("nothing"))
    trial.run([of("p", "a")])
    (attempt,) = trial.attempts
    assert attempt.error is not None
    assert (attempt.error.__traceback__, attempt.error.__context__) == (None, None)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("UNKNOWN", True), ("DEADLINE_EXCEEDED", False), ("CANCELLED", False), ("UNAVAILABLE", False)],
)
def test_a_runtime_that_was_not_heard_to_the_end_may_have_the_image(code: str, expected: bool) -> None:
    """A deadline, a connection that ended: who knows. A refusal is an end."""
    trial = Trial(taking("x", error=lambda: ContainerRuntimeError("s", code, "", Kind.ERROR)))
    trial.run([])
    (attempt,) = trial.attempts
    assert attempt.is_conclusive is expected
