"""Choose the credentials: the first configured source, in the order of AWS' Go SDK or of botocore.

A source that is chosen and then fails is an error: the next source would belong to another identity.
"""

from __future__ import annotations

from collections.abc import Callable

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.credentials import process_credentials, variable_credentials
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.oauth.answers import is_visible
from keyferry_plugins.signing.sigv4 import Credentials

GO, BOTOCORE = "go", "botocore"
_TOKEN_FILE = "AWS_WEB_IDENTITY_TOKEN_FILE"  # noqa: S105 - the name of a variable
_SOURCES = ("Ec2InstanceMetadata", "Environment", "EcsContainer")


def find_credentials(environment: Environment, *, region: str, order: str = GO) -> Credentials:
    """Return the credentials of this run; roles are assumed in *region*. Raise ProvideError on failure."""
    found = _Chain(environment, region, is_botocore=order == BOTOCORE).find()
    if found is not None:
        return found
    from keyferry_plugins.aws.machine import machine_credentials

    return machine_credentials(environment)


class _Chain:
    """Look for credentials in variables and profiles; a method returns None if its source is not configured.

    A profile can name another one as its source, so the names of the profiles in use are recorded to detect cycles.
    """

    def __init__(self, environment: Environment, region: str, *, is_botocore: bool) -> None:
        self._environment = environment
        self._region = region
        self._is_botocore = is_botocore
        self._visited: list[str] = []

    def find(self) -> Credentials | None:
        """Return the credentials of the first source that is set."""
        profile = self._environment.profile_name
        if self._environment.is_profile_explicit:
            return self._by_profile(profile)
        found = self._variables()
        if found is None and not self._is_botocore:
            found = self._token_file()
        return self._by_profile(profile) if found is None else found

    def _variables(self) -> Credentials | None:
        found = variable_credentials(self._environment)
        is_partial = found is None and self._environment.variable("AWS_ACCESS_KEY_ID")
        if self._is_botocore and is_partial:
            raise ProvideError(
                "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not", "set both or neither"
            )
        return found

    def _token_file(self) -> Credentials | None:
        """Return the credentials of a pod's service account; IAM roles for service accounts set these variables."""
        path = self._environment.variable(_TOKEN_FILE)
        if not path or self._environment.is_profile_explicit:
            return None
        role = self._environment.variable("AWS_ROLE_ARN")
        if not role:
            raise ProvideError(f"{_TOKEN_FILE} is set, but AWS_ROLE_ARN is not", "set both or neither")
        return self._exchange_token_file(path, role, self._environment.variable("AWS_ROLE_SESSION_NAME"))

    def _exchange_token_file(self, path: str, role: str, session_name: str) -> Credentials:
        """Return the credentials of a role for the identity token in a file."""
        from keyferry_plugins.aws.sts import assume_role_with_web_identity, read_token_file

        return assume_role_with_web_identity(
            self._environment, role, read_token_file(path), region=self._region, session_name=session_name
        )

    def _by_profile(self, name: str) -> Credentials | None:
        """Return the credentials of a profile, whose role is assumed if it has one."""
        # A profile that refers to itself may use its own keys, but not its role again.
        if name in self._visited:
            return self._without_role(name)
        self._visited.append(name)
        if self._is_botocore:
            if self._text(name, "role_arn") and not self._text(name, "web_identity_token_file"):
                return self._assume_role_of(
                    name, self._by_source_profile(name) or self._by_credential_source(name)
                )
            # botocore checks the variables of a pod here, for the first profile.
            return (self._token_file() if len(self._visited) == 1 else None) or self._without_role(name)
        found = self._by_source_profile(name) or self._static(name) or self._by_credential_source(name)
        if found is None:
            # A token file is exchanged for the role itself: there is no role left to assume.
            assumed = self._web_identity_file(name)
            if assumed is not None:
                return assumed
            found = self._sso(name) or self._login(name) or self._process(name)
        return self._assume_role_of(name, found)

    def _without_role(self, name: str) -> Credentials | None:
        """Return a profile's credentials without its role; in botocore's order keys in the config file come last."""
        steps: tuple[Callable[[str], Credentials | None], ...]
        if not self._is_botocore:
            steps = (self._static, self._sso, self._login, self._process)
        elif name in self._environment.shared_config.keyed:
            steps = (self._web_identity_file, self._sso, self._static, self._login, self._process)
        else:
            steps = (self._web_identity_file, self._sso, self._login, self._process, self._static)
        return next((found for found in (step(name) for step in steps) if found is not None), None)

    def _assume_role_of(self, name: str, found: Credentials | None) -> Credentials | None:
        """Return the credentials of the profile's role, assumed with *found*; without a role, return *found*."""
        role = self._text(name, "role_arn")
        if not role:
            return found
        if found is None:
            if self._is_botocore:
                raise ProvideError(
                    f"the AWS profile {name!r} has role_arn, but neither source_profile nor credential_source",
                    "add one of them to select the credentials that assume the role",
                )
            from keyferry_plugins.aws.machine import machine_credentials

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

    def _by_source_profile(self, name: str) -> Credentials | None:
        """Return the credentials of the profile that ``source_profile`` names."""
        source = self._text(name, "source_profile")
        if not source:
            return None
        if not self._text(name, "role_arn"):
            raise ProvideError(f"the AWS profile {name!r} has source_profile, but no role_arn")
        if source not in self._environment.shared_config.profiles:
            raise ProvideError(
                f"the AWS profile {name!r} names the source_profile {source!r}, which does not exist"
            )
        path = " -> ".join([*self._visited, source])
        is_loop = source in self._visited
        found = self._by_profile(source)
        if found is None:
            raise ProvideError(
                f"the source profiles {path} form a cycle"
                if is_loop
                else f"the AWS profile {source!r}, source_profile of {name!r}, has no credentials"
            )
        return found

    def _static(self, name: str) -> Credentials | None:
        key, secret = self._text(name, "aws_access_key_id"), self._text(name, "aws_secret_access_key")
        if not key and not secret:
            return None
        token = self._text(name, "aws_session_token")
        if not (key and secret) or not is_visible(key + token):
            raise ProvideError(
                f"the AWS profile {name!r}: aws_access_key_id or aws_secret_access_key is missing, or is not a key"
            )
        return Credentials(
            access_key_id=key,
            secret_access_key=secret,
            session_token=token,
            source=f"the AWS profile {name!r}",
        )

    def _by_credential_source(self, name: str) -> Credentials | None:
        """Return the credentials of the variables, container or instance that ``credential_source`` names."""
        source = self._text(name, "credential_source")
        if not source:
            return None
        if not self._text(name, "role_arn"):
            raise ProvideError(f"the AWS profile {name!r} has credential_source, but no role_arn")
        from keyferry_plugins.aws.machine import container_credentials, instance_credentials

        match source.lower():
            case "ec2instancemetadata":
                return instance_credentials(self._environment)
            case "ecscontainer":
                return container_credentials(self._environment)
            case "environment":
                found = variable_credentials(self._environment)
                if found is not None:
                    return found
                raise ProvideError(
                    "the AWS profile's credential_source is Environment, but no keys are set in environment variables",
                    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                )
        raise ProvideError(
            f"the AWS profile {name!r}: credential_source is {source[:60]!r}, expected one of {', '.join(_SOURCES)}"
        )

    def _web_identity_file(self, name: str) -> Credentials | None:
        path = self._text(name, "web_identity_token_file")
        if not path:
            return None
        role = self._text(name, "role_arn")
        if not role:
            raise ProvideError(f"the AWS profile {name!r} has web_identity_token_file, but no role_arn")
        return self._exchange_token_file(path, role, self._text(name, "role_session_name"))

    def _sso(self, name: str) -> Credentials | None:
        if not any(
            key in self._environment.shared_config.profiles.get(name, {})
            for key in ("sso_session", "sso_start_url", "sso_account_id", "sso_role_name")
        ):
            return None
        from keyferry_plugins.aws.sso import sso_credentials

        return sso_credentials(self._environment, name)

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
        return process_credentials(self._environment, command, name) if command else None

    def _text(self, name: str, key: str) -> str:
        return self._environment.profile_text(key, name)
