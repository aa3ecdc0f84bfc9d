"""An exit code for each kind of error."""

from __future__ import annotations

import pytest

from keyferry import errors
from keyferry.cli.exits import EXIT_CODES, EXITS, Exit, exit_code, most_severe
from keyferry.errors import Kind, KubeletReason


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
        (errors.RegistryError("r", 429, "m"), Exit.UNKNOWN),
        (errors.RegistryError("r", 0, "m", Kind.UNREACHABLE), Exit.UNKNOWN),
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


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 6), 6),
        ((6, 4), 4),
        ((6, 124, 5), 124),
        ((3, 6), 3),
        ((0, 5, 6, 1), 1),
        ((124, 1), 1),
    ],
)
def test_of_several_a_sure_no_goes_first_and_unknown_before_yes(
    codes: tuple[int, ...], expected: int
) -> None:
    assert most_severe(map(Exit, codes)) == expected


def test_every_code_that_a_command_ends_with_is_in_the_help() -> None:
    """All but the two that shells know."""
    for code in Exit:
        assert f"{int(code)} " in EXIT_CODES or code in (Exit.INTERRUPTED, Exit.PIPE)
