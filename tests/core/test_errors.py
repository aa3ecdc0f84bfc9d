"""Errors and problems are values: whole after pickling, and never changed."""

from __future__ import annotations

import inspect
import pickle

import pytest

from keyferry import errors
from keyferry.errors import Detail, Fault, KeyferryError, Kind, KubeletReason, Problem

PROBLEM = Problem(
    "a.b",
    "m",
    code="KF1",
    kubernetes_text="k",
    kind=Kind.WRONG_TYPE,
    detail=Detail.NO_TEXT,
    file="f",
    line=1,
    column=2,
)
ALL: list[KeyferryError] = [
    errors.ClusterAuthError("https://s", "m", "k", errors.PolicyError("p"), Kind.TIMEOUT),
    errors.ConfigError((PROBLEM,), "k"),
    errors.ContainerRuntimeError("s", "UNKNOWN", "m", Kind.REFUSED),
    errors.DocumentError("m", 1, 2, "k", Kind.JSON_SYNTAX),
    errors.DurationError("m", "k"),
    errors.EnvironmentProblem("m", "k"),
    errors.HttpError("u", "p", "h", True),
    errors.ImageNameError("m", "k"),
    errors.ImagePullError(
        "i", KubeletReason.ERR_IMAGE_PULL, "m", "k", Kind.REFUSED, (errors.PolicyError("f"),)
    ),
    errors.KubeconfigError((PROBLEM,), "k"),
    errors.MatchError("m", "k"),
    errors.PluginError("p", "m", "k"),
    errors.PluginExitError("p", 1, "k", "tail"),
    errors.PluginNotFoundError("p", "m", "k", "hint"),
    errors.PluginOutputError("p", "m", "k"),
    errors.PluginProtocolError("p", "m", "k", Kind.STRICT, Fault.KIND),
    errors.PluginStartError("p", "m", "k"),
    errors.PluginTimeoutError("p", 1.5, "k", "tail", False),
    errors.PolicyError("m", "k", "sha256"),
    errors.ProvideError("m", "h", Kind.NOT_FOUND),
    errors.PullSecretError("m", "k"),
    errors.RecordError("p", "m", "k", Kind.SYNTAX, Kind.JSON_SYNTAX),
    errors.RegistryError("r", 401, "m"),
    errors.NodeAudienceError("n", "a", "shop/b", ({"kind": "ClusterRole"},)),
    errors.ServiceAccountError("m", "k"),
    errors.TimeError("m", "k"),
    errors.UnusableCertificateError("p", "m", "k", 5),
]


def told(error: KeyferryError) -> object:
    """All that an error holds, errors inside it included."""
    fields = {
        name: told(value) if isinstance(value, KeyferryError) else repr(value)
        for name, value in vars(error).items()
    }
    return type(error), str(error), error.kind, error.kubernetes_text, fields


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_an_error_is_whole_after_pickling(error: KeyferryError) -> None:
    again = pickle.loads(pickle.dumps(error))  # our own bytes
    assert told(again) == told(error)
    assert again.kind is error.kind
    assert isinstance(error.kind, Kind)


def test_no_error_is_left_out() -> None:
    named = {getattr(errors, name) for name in errors.__all__}
    classes = {each for each in named if inspect.isclass(each) and issubclass(each, KeyferryError)}
    assert classes - {KeyferryError} == set(map(type, ALL))


def test_a_problem_is_a_value() -> None:
    """Frozen, and every field counts in equality and hash."""
    with pytest.raises(AttributeError, match="Problem is frozen"):
        PROBLEM.message = "x"  # type: ignore[misc] # that is the point
    with pytest.raises(AttributeError, match="Problem is frozen"):
        del PROBLEM.message
    changes: dict[str, object] = {"kind": Kind.STRICT, "detail": Detail.NONE, "line": 9, "column": 9}
    changes |= dict.fromkeys(("path", "message", "code", "kubernetes_text", "file"), "x")
    others = {PROBLEM.changed(**{name: value}) for name, value in changes.items()}
    assert len(others | {PROBLEM}) == len(changes) + 1
    assert pickle.loads(pickle.dumps(PROBLEM)) == PROBLEM  # our own bytes


def test_a_cluster_error_has_the_kind_of_what_is_behind_it() -> None:
    assert errors.ClusterAuthError("s", "m", "", errors.PluginNotFoundError("p", "m")).kind is Kind.NOT_FOUND
    assert errors.ClusterAuthError("s", "m").kind is Kind.REFUSED


def test_the_problems_of_a_config_are_in_the_order_of_their_positions() -> None:
    """Files keep the order in which they were given, and the text is still that of the first problem."""
    late = errors.Problem("c", "late", file="b.yaml", line=9, column=1, kubernetes_text="first of all")
    early = errors.Problem("a", "early", file="b.yaml", line=2, column=5)
    left = errors.Problem("b", "left", file="b.yaml", line=2, column=1)
    other = errors.Problem("d", "other", file="a.yaml", line=1, column=1)
    error = errors.ConfigError((late, early, other, left))
    assert [problem.path for problem in error.problems] == ["b", "a", "c", "d"]
    assert error.kubernetes_text == "first of all"
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == error.problems
