"""The credentials of a profile: keys, a role assumed from another profile, a login, or a program."""

from __future__ import annotations

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.ambient import machine_credentials, source_credentials
from keyferry_plugins.aws.credentials import Credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from keyferry_plugins.aws.environment import Environment

    Step = Callable[[str], Credentials | None]

__all__ = ["ProfileChain"]

_SOURCES = ("Ec2InstanceMetadata", "Environment", "EcsContainer")


class ProfileChain:
    """Resolve a profile to credentials, and assume the roles on the way.

    *order* selects whose order the sources inside a profile follow; *web_identity* is the source that
    botocore checks between them.
    """

    def __init__(
        self,
        environment: Environment,
        region: str,
        order: str,
        web_identity: Callable[[], Credentials | None],
    ) -> None:
        self._environment = environment
        self._region = region
        self._web_identity = web_identity
        self._is_botocore = order == "botocore"
        self._visited: list[str] = []

    def resolve(self) -> Credentials | None:
        """Return the credentials of the profile in use, or None if it has none."""
        return self._follow(self._environment.profile_name)

    def _follow(self, name: str) -> Credentials | None:
        # A profile that refers to itself may use its own keys, but not its role again.
        if name in self._visited:
            return self._own(name)
        self._visited.append(name)
        if not self._is_botocore:
            return self._follow_as_go(name)
        role = self._text(name, "role_arn")
        if role and not self._text(name, "web_identity_token_file"):
            return self._assumed(name, self._linked(name) or self._named_source(name))
        return (self._web_identity() if len(self._visited) == 1 else None) or self._own(name)

    def _follow_as_go(self, name: str) -> Credentials | None:
        found = self._first(name, (self._linked, self._static, self._named_source))
        if found is None:
            # A token file is exchanged for the role itself: there is no role left to assume.
            assumed = self._web_identity_file(name)
            if assumed is not None:
                return assumed
            found = self._first(name, self._last_steps())
        return self._assumed(name, found)

    def _own(self, name: str) -> Credentials | None:
        """Return the profile's own credentials; in botocore's order keys in the config file come last."""
        if not self._is_botocore:
            return self._first(name, (self._static, *self._last_steps()))
        steps = [self._web_identity_file, self._sso, self._static, *self._last_steps()[1:]]
        if name not in self._environment.profiles.keyed:
            steps.append(steps.pop(2))
        return self._first(name, tuple(steps))

    def _last_steps(self) -> tuple[Step, ...]:
        return (self._sso, self._login, self._process)

    def _first(self, name: str, steps: tuple[Step, ...]) -> Credentials | None:
        for step in steps:
            found = step(name)
            if found is not None:
                return found
        return None

    def _assumed(self, name: str, found: Credentials | None) -> Credentials | None:
        """Return the credentials of the profile's role, assumed with *found*."""
        role = self._text(name, "role_arn")
        if not role:
            return found
        if found is None:
            if self._is_botocore:
                raise ProvideError(
                    f"the AWS profile {name!r} has role_arn, but neither source_profile nor credential_source",
                    "add one of them to select the credentials that assume the role",
                )
            found = machine_credentials(self._environment)
        from keyferry_plugins.aws.sts import assume_role

        return assume_role(
            self._environment,
            found,
            role,
            region=self._region,
            session_name=self._text(name, "role_session_name"),
            external_id=self._text(name, "external_id"),
            duration_seconds=self._text(name, "duration_seconds"),
            mfa_serial=self._text(name, "mfa_serial"),
        )

    def _linked(self, name: str) -> Credentials | None:
        source = self._text(name, "source_profile")
        if not source:
            return None
        if not self._text(name, "role_arn"):
            raise ProvideError(f"the AWS profile {name!r} has source_profile, but no role_arn")
        if source not in self._environment.profiles.profiles:
            raise ProvideError(
                f"the AWS profile {name!r} names the source_profile {source!r}, which does not exist"
            )
        way = " -> ".join([*self._visited, source])
        is_loop = source in self._visited
        found = self._follow(source)
        if found is None:
            raise ProvideError(
                f"the source profiles {way} form a cycle"
                if is_loop
                else f"the AWS profile {source!r}, source_profile of {name!r}, has no credentials"
            )
        return found

    def _static(self, name: str) -> Credentials | None:
        key, secret = self._text(name, "aws_access_key_id"), self._text(name, "aws_secret_access_key")
        if not key and not secret:
            return None
        token = self._text(name, "aws_session_token")
        if not (key and secret) or any(not "!" <= char <= "~" for char in key + token):
            raise ProvideError(
                f"the AWS profile {name!r}: aws_access_key_id or aws_secret_access_key is missing, or is not a key"
            )
        return Credentials(key, secret, token, source=f"the AWS profile {name!r}")

    def _named_source(self, name: str) -> Credentials | None:
        source = self._text(name, "credential_source")
        if not source:
            return None
        if not self._text(name, "role_arn"):
            raise ProvideError(f"the AWS profile {name!r} has credential_source, but no role_arn")
        if source.lower() not in map(str.lower, _SOURCES):
            raise ProvideError(
                f"the AWS profile {name!r}: credential_source is {source[:60]!r}, expected one of {', '.join(_SOURCES)}"
            )
        return source_credentials(self._environment, source.lower())

    def _web_identity_file(self, name: str) -> Credentials | None:
        path = self._text(name, "web_identity_token_file")
        if not path:
            return None
        role = self._text(name, "role_arn")
        if not role:
            raise ProvideError(f"the AWS profile {name!r} has web_identity_token_file, but no role_arn")
        from keyferry_plugins.aws.sts import assume_role_with_web_identity, read_token_file

        return assume_role_with_web_identity(
            self._environment,
            role,
            read_token_file(path),
            region=self._region,
            session_name=self._text(name, "role_session_name"),
        )

    def _sso(self, name: str) -> Credentials | None:
        from keyferry_plugins.aws.sso import has_sso, sso_credentials

        return (
            sso_credentials(self._environment, name)
            if has_sso(self._environment.profile_section(name))
            else None
        )

    def _login(self, name: str) -> Credentials | None:
        if not self._text(name, "login_session"):
            return None
        raise ProvideError(
            f"the AWS profile {name!r} has login_session, which only AWS' own tools support",
            "use a profile with credential_process ="
            f" aws configure export-credentials --profile {name} --format process",
        )

    def _process(self, name: str) -> Credentials | None:
        command = self._text(name, "credential_process")
        if not command:
            return None
        from keyferry_plugins.aws.processes import process_credentials

        return process_credentials(self._environment, command, name)

    def _text(self, name: str, key: str) -> str:
        value = self._environment.profile_section(name).get(key, "")
        return value if isinstance(value, str) else ""
