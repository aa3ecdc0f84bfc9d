"""The AWS settings of a run, from variables first and the profile second, and the options of every call."""

from __future__ import annotations

import os
from time import time

from keyferry.sdk import ProvideError
from keyferry.sdk.http import HttpOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk import Deadline
    from keyferry_plugins.aws.profiles import Profiles, Section

__all__ = ["Environment", "read_seconds"]

_DEFAULT = "default"
_ATTEMPTS = 3
_NANOSECONDS = 1_000_000_000
_MOST_ATTEMPTS = 1000


class Environment:
    """The sources of settings, with the clock and the prompt for MFA codes.

    *profile* and *region* come from flags and take precedence over variables. *ask_code* returns the code of
    the user's MFA device; without it, profiles that need a code are rejected.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        deadline: Deadline,
        *,
        profile: str = "",
        region: str = "",
        ca_file: str = "",
        now: Callable[[], float] = time,
        ask_code: Callable[[str], str] | None = None,
    ) -> None:
        self.variables = variables
        self._profile = profile
        self._region = region
        self._ca_file = ca_file
        self._profiles: Profiles | None = None
        self._is_configured: bool | None = None
        self.deadline = deadline
        self.now = now
        self.ask_code = ask_code

    def variable(self, name: str) -> str:
        """Return a variable's value, or an empty string."""
        return self.variables.get(name, "")

    @property
    def home(self) -> str:
        """The user's home directory, also if a service manager sets no HOME."""
        return self.variable("HOME") or os.path.expanduser("~")

    @property
    def is_profile_explicit(self) -> bool:
        """Whether a flag names the profile; the profile then takes precedence over keys in variables."""
        return bool(self._profile)

    @property
    def profile_name(self) -> str:
        """The name of the profile in use."""
        return (
            self._profile or self.variable("AWS_PROFILE") or self.variable("AWS_DEFAULT_PROFILE") or _DEFAULT
        )

    @property
    def profiles(self) -> Profiles:
        """Both files, read on first use; raise ProvideError if they lack an explicitly requested profile."""
        if self._profiles is None:
            from keyferry_plugins.aws.profiles import load_profiles

            config, credentials = self.files
            found = load_profiles(config, credentials)
            name = self.profile_name
            if name != _DEFAULT and name not in found.profiles:
                raise ProvideError(
                    f"the AWS profile {name!r} is in neither {config!r} nor {credentials!r}",
                    "check AWS_PROFILE, AWS_CONFIG_FILE and HOME",
                )
            self._profiles = found
        return self._profiles

    @property
    def files(self) -> tuple[str, str]:
        """The paths of the config file and the credentials file."""
        folder = os.path.join(self.home, ".aws")
        return (
            self.variable("AWS_CONFIG_FILE") or os.path.join(folder, "config"),
            self.variable("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(folder, "credentials"),
        )

    def profile_section(self, name: str) -> Section:
        """Return all keys of a profile; empty if the profile does not exist."""
        # Most nodes have no such files; this avoids loading the parser.
        if name == self.profile_name == _DEFAULT and not self._has_files():
            return {}
        return self.profiles.profiles.get(name, {})

    def _has_files(self) -> bool:
        if self._is_configured is None:
            self._is_configured = any(map(os.path.exists, self.files))
        return self._is_configured

    def profile_text(self, key: str) -> str:
        """Return the value of a key in the profile in use, or an empty string."""
        value = self.profile_section(self.profile_name).get(key, "")
        return value if isinstance(value, str) else ""

    def service_setting(self, service: str, key: str) -> str:
        """Return a key of *service* in the services section that the profile in use refers to, or an empty string."""
        name = self.profile_text("services")
        section = self.profiles.services.get(name, {}).get(service) if name else None
        return section.get(key, "") if isinstance(section, dict) else ""

    def setting(self, variable: str, key: str) -> str:
        """Return a variable's value, or else the value of the profile's key."""
        return self.variable(variable) or self.profile_text(key)

    def is_on(self, variable: str, key: str) -> bool:
        """Return whether a setting is ``true``, in any letter case."""
        return self.setting(variable, key).lower() == "true"

    def find_region(self, *, reads_aws_region: bool = True) -> str:
        """Return the region from the flag, AWS_REGION, AWS_DEFAULT_REGION or the profile, or an empty string."""
        return (
            self._region
            or (self.variable("AWS_REGION") if reads_aws_region else "")
            or self.variable("AWS_DEFAULT_REGION")
            or self.profile_text("region")
        )

    def http_options(self) -> HttpOptions:
        """Return the HTTP options for AWS: the environment's proxy and the configured CA bundle."""
        return HttpOptions(ca_file=self._ca_file or self.setting("AWS_CA_BUNDLE", "ca_bundle"))

    def attempts(self) -> int:
        """Return the maximum number of attempts of a call; 0 means no limit but the deadline."""
        text = self.setting("AWS_MAX_ATTEMPTS", "max_attempts")
        if not text:
            return _ATTEMPTS
        if not (text.isascii() and text.isdigit() and len(text) < 6):  # digits
            raise ProvideError(f"AWS_MAX_ATTEMPTS or max_attempts: found {text[:40]!r}, expected a number")
        return min(int(text) or _MOST_ATTEMPTS, _MOST_ATTEMPTS)


def read_seconds(text: str) -> float:
    """Return the seconds of a duration such as ``50s``; raise ProvideError if it is invalid or not above 0."""
    from keyferry.api.meta import parse_duration

    try:
        nanoseconds = parse_duration(text)
    except Exception:  # noqa: BLE001 - reported below
        nanoseconds = 0
    if nanoseconds <= 0:
        raise ProvideError(f"flag --timeout: found {text[:40]!r}, expected a duration such as 50s")
    return nanoseconds / _NANOSECONDS
