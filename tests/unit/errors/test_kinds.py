"""A closed set of words that behaves as ``enum.StrEnum`` does, and an exit code for each of them."""

import copy
import enum
import json
import pickle

import pytest

from keyferry import errors
from keyferry.cli.frame.commands import EXITS, Exit, exit_code
from keyferry.errors import Kind, KubeletReason


class Model(enum.StrEnum):
    """What Kind is to a type checker."""

    REFUSED = "refused"
    NOT_FOUND = "not-found"


def test_a_member_behaves_as_one_of_the_standard_library() -> None:
    for ours, theirs in ((Kind.REFUSED, Model.REFUSED), (Kind.NOT_FOUND, Model.NOT_FOUND)):
        assert (ours.name, ours.value) == (theirs.name, theirs.value)
        assert (str(ours), f"{ours}", f"{ours:>12}") == (str(theirs), f"{theirs}", f"{theirs:>12}")
        assert repr(ours) == repr(theirs).replace("Model", "Kind")
        assert type(str(ours)) is str
        assert ours == theirs.value
        assert hash(ours) == hash(theirs.value)
        assert json.dumps({"kind": ours}) == json.dumps({"kind": theirs})


def test_a_kind_is_found_by_its_word_and_there_is_one_of_each() -> None:
    assert Kind("refused") is Kind.REFUSED
    assert all(Kind(each) is each for each in Kind)
    assert len({str(each) for each in Kind}) == len(Kind) == len(list(Kind))


def test_a_word_that_is_none_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="'nonsense' is not a valid Kind"):
        Kind("nonsense")


@pytest.mark.parametrize("kind", [Kind.REFUSED, KubeletReason.ERR_IMAGE_PULL])
def test_copies_are_the_same_member(kind: Kind | KubeletReason) -> None:
    assert pickle.loads(pickle.dumps(kind)) is kind  # our own bytes
    assert copy.copy(kind) is kind
    assert copy.deepcopy(kind) is kind


def test_the_set_is_closed() -> None:
    with pytest.raises(AttributeError):
        setattr(Kind, "REFUSED", "x")  # noqa: B010 - a type checker refuses the plain way
    with pytest.raises(AttributeError):
        delattr(Kind, "REFUSED")
    with pytest.raises(AttributeError):
        setattr(Kind.REFUSED, "value", "x")  # noqa: B010 - as above


def test_every_kind_has_an_exit_code() -> None:
    assert set(EXITS) == set(Kind)


def plugin(kind: type[errors.PluginError]) -> errors.PluginError:
    return kind("p", "m")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.PluginTimeoutError("p", 1.0), Exit.TIMEOUT),
        (errors.PluginExitError("p", 1), Exit.PLUGIN),
        *((plugin(kind), Exit.PLUGIN) for kind in (errors.PluginError, errors.PluginNotFoundError)),
        *((plugin(kind), Exit.PLUGIN) for kind in (errors.PluginStartError, errors.PluginOutputError)),
        (errors.PluginProtocolError("p", "m"), Exit.PLUGIN),
        (errors.ServiceAccountError("m"), Exit.PLUGIN),
        (errors.ImageNameError("m"), Exit.USAGE),
        (errors.ConfigError(()), Exit.ENVIRONMENT),
        (errors.PolicyError("m"), Exit.ENVIRONMENT),
        (errors.EnvironmentProblem("m"), Exit.ENVIRONMENT),
        (errors.PullSecretError("m"), Exit.ENVIRONMENT),
        (errors.DocumentError("m"), Exit.ENVIRONMENT),
        *(
            (errors.RecordError("p", "m", "", kind), Exit.ENVIRONMENT)
            for kind in (
                Kind.SYNTAX,
                Kind.TYPE,
                Kind.CONTENT,
                Kind.TRUST,
                Kind.FOREIGN,
                Kind.LOCKED,
                Kind.SYSTEM,
            )
        ),
        (errors.MatchError("m"), Exit.NO),
        (errors.ProvideError("m"), Exit.NO),
        (errors.RegistryError("r", 401, "m"), Exit.REFUSED),
        (errors.RegistryError("r", 404, "m"), Exit.NO),
        (errors.RegistryError("r", 429, "m"), Exit.NO),
        (errors.RegistryError("r", 0, "m", Kind.UNREACHABLE), Exit.ENVIRONMENT),
        (errors.RegistryError("r", 0, "m", Kind.TIMEOUT), Exit.TIMEOUT),
        (errors.RegistryError("r", 0, "m", Kind.CONTENT), Exit.NO),
        (errors.ContainerRuntimeError("s", "NOT_FOUND", "m", Kind.NOT_FOUND), Exit.NO),
        (errors.ContainerRuntimeError("s", "UNKNOWN", "m", Kind.REFUSED), Exit.REFUSED),
        (errors.ImagePullError("i", KubeletReason.INVALID_IMAGE_NAME, "m", "", Kind.NAME), Exit.USAGE),
        (errors.ImagePullError("i", KubeletReason.ERR_IMAGE_NEVER_PULL, "m", "", Kind.ABSENT), Exit.NO),
        (
            errors.ImagePullError(
                "i", KubeletReason.IMAGE_INSPECT_ERROR, "m", failures=(errors.EnvironmentProblem("f"),)
            ),
            Exit.ENVIRONMENT,
        ),
        (errors.ClusterAuthError("s", "m"), Exit.REFUSED),
        (errors.ClusterAuthError("s", "m", kind=Kind.TIMEOUT), Exit.TIMEOUT),
        (errors.ClusterAuthError("s", "m", "", errors.PolicyError("m")), Exit.ENVIRONMENT),
        (errors.ClusterAuthError("s", "m", "", errors.PluginNotFoundError("p", "m")), Exit.PLUGIN),
        (OSError(), Exit.NO),
    ],
)
def test_an_error_leads_to_the_exit_code_of_its_kind(error: Exception, code: Exit) -> None:
    assert exit_code(error) is code
