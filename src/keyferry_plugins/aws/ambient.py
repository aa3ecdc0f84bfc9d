"""Credentials that need no profile: from environment variables, or from the container or instance."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.credentials import Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry_plugins.aws.environment import Environment

__all__ = ["machine_credentials", "source_credentials", "variable_credentials"]


def machine_credentials(environment: Environment) -> Credentials:
    """Return the credentials of the container or instance this runs on; raise ProvideError if there are none."""
    from keyferry_plugins.aws.containers import container_credentials, container_url

    if container_url(environment):
        return container_credentials(environment)
    from keyferry_plugins.aws.instance import instance_credentials

    return instance_credentials(environment)


def variable_credentials(environment: Environment) -> Credentials | None:
    """Return the keys in environment variables, or None unless both are set."""
    key = environment.variable("AWS_ACCESS_KEY_ID") or environment.variable("AWS_ACCESS_KEY")
    secret = environment.variable("AWS_SECRET_ACCESS_KEY") or environment.variable("AWS_SECRET_KEY")
    token = environment.variable("AWS_SESSION_TOKEN")
    if not key or not secret:
        return None
    if any(not "!" <= char <= "~" for char in key + token):
        raise ProvideError(
            "AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN contains whitespace or another character that is not"
            " valid in a header",
            "set it again, without stray characters from copying",
        )
    return Credentials(key, secret, token, source="environment variables")


def source_credentials(environment: Environment, source: str) -> Credentials:
    """Return the credentials of a credential_source, given in lower case; raise ProvideError on failure."""
    if source == "environment":
        found = variable_credentials(environment)
        if found is None:
            raise ProvideError(
                "the AWS profile's credential_source is Environment, but no keys are set in environment variables",
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        return found
    if source == "ecscontainer":
        from keyferry_plugins.aws.containers import container_credentials

        return container_credentials(environment)
    from keyferry_plugins.aws.instance import instance_credentials

    return instance_credentials(environment)
