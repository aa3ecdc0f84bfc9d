"""Choose the credentials: the first configured source, in the order of AWS' Go SDK or of botocore.

A source that is chosen and then fails is an error: the next source would belong to another identity.
"""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.ambient import machine_credentials, variable_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.aws.credentials import Credentials
    from keyferry_plugins.aws.environment import Environment

__all__ = ["BOTOCORE", "GO", "find_credentials"]

GO, BOTOCORE = "go", "botocore"
_TOKEN_FILE = "AWS_WEB_IDENTITY_TOKEN_FILE"  # noqa: S105 - the name of a variable


def find_credentials(environment: Environment, *, region: str, order: str = GO) -> Credentials:
    """Return the credentials of this run; roles are assumed in *region*. Raise ProvideError on failure."""
    found = _from_variables(environment, order)
    if found is None and order == GO:
        found = _from_token_file(environment, region)
    if found is None:
        found = _from_profile(environment, region, order)
    return machine_credentials(environment) if found is None else found


def _from_variables(environment: Environment, order: str) -> Credentials | None:
    if environment.is_profile_explicit:
        return None
    found = variable_credentials(environment)
    is_partial = found is None and environment.variable("AWS_ACCESS_KEY_ID")
    if order == BOTOCORE and is_partial:
        raise ProvideError(
            "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not", "set both or neither"
        )
    return found


def _from_token_file(environment: Environment, region: str) -> Credentials | None:
    """Return the credentials of a pod's service account; IAM roles for service accounts set these variables."""
    path = environment.variable(_TOKEN_FILE)
    if not path or environment.is_profile_explicit:
        return None
    role = environment.variable("AWS_ROLE_ARN")
    if not role:
        raise ProvideError(f"{_TOKEN_FILE} is set, but AWS_ROLE_ARN is not", "set both or neither")
    from keyferry_plugins.aws.sts import assume_role_with_web_identity, read_token_file

    return assume_role_with_web_identity(
        environment,
        role,
        read_token_file(path),
        region=region,
        session_name=environment.variable("AWS_ROLE_SESSION_NAME"),
    )


def _from_profile(environment: Environment, region: str, order: str) -> Credentials | None:
    from keyferry_plugins.aws.profile_chain import ProfileChain

    def web_identity() -> Credentials | None:
        return _from_token_file(environment, region) if order == BOTOCORE else None

    return ProfileChain(environment, region, order, web_identity).resolve()
