"""The AWS settings of a run: from variables first, and then from the profile in AWS' two files.

The files ``~/.aws/config`` and ``~/.aws/credentials`` are parsed by the rules of AWS' Go SDK.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from time import time

from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.files import read_bounded
from keyferry.sdk.http import HttpOptions

Section = dict[str, str | dict[str, str]]

DEFAULT_PROFILE = "default"
DEFAULT_ATTEMPTS = 3
MAX_ATTEMPTS = 1000
_MAX_ATTEMPTS_DIGITS = 5
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


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
            self._profile
            or self.variable("AWS_PROFILE")
            or self.variable("AWS_DEFAULT_PROFILE")
            or DEFAULT_PROFILE
        )

    @property
    def files(self) -> tuple[str, str]:
        """The paths of the config file and the credentials file."""
        folder = os.path.join(self.home, ".aws")
        return (
            self.variable("AWS_CONFIG_FILE") or os.path.join(folder, "config"),
            self.variable("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(folder, "credentials"),
        )

    @cached_property
    def shared_config(self) -> SharedConfig:
        """Both files, read on first use; raise ProvideError if they lack an explicitly requested profile."""
        config, credentials = self.files
        found = load_shared_config(config, credentials)
        name = self.profile_name
        if name != DEFAULT_PROFILE and name not in found.profiles:
            raise ProvideError(
                f"the AWS profile {name!r} is in neither {config!r} nor {credentials!r}",
                "check AWS_PROFILE, AWS_CONFIG_FILE and HOME",
            )
        return found

    def profile_text(self, key: str, profile: str = "") -> str:
        """Return the value of a key in *profile*, or else in the profile in use; an empty string without one."""
        return text_in(self.shared_config.profiles.get(profile or self.profile_name, {}), key)

    def service_setting(self, service: str, key: str) -> str:
        """Return a key of *service* in the services section that the profile in use refers to, or an empty string."""
        name = self.profile_text("services")
        section = self.shared_config.services.get(name, {}).get(service) if name else None
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
            return DEFAULT_ATTEMPTS
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_ATTEMPTS_DIGITS):
            raise ProvideError(f"AWS_MAX_ATTEMPTS or max_attempts: found {text[:40]!r}, expected a number")
        return min(int(text) or MAX_ATTEMPTS, MAX_ATTEMPTS)


class SharedConfig:
    """The profiles, SSO sessions and service sections of both files, by name; its repr shows no values."""

    def __init__(self, config: dict[str, Section], credentials: dict[str, Section]) -> None:
        self.services = _named(config, "services")
        self.sso_sessions = _named(config, "sso-session")
        self.profiles = _named(config, "profile")
        # "[profile default]" takes precedence over "[default]", and the credentials file over both.
        self.profiles.setdefault(DEFAULT_PROFILE, config.get(DEFAULT_PROFILE, {}))
        for name, section in credentials.items():
            self.profiles[name] = _merge(self.profiles.get(name, {}), section)
        # The profiles whose access key is in the credentials file, which botocore checks first.
        self.keyed = frozenset(name for name, section in credentials.items() if _KEYS[0] in section)


def load_shared_config(config_path: str, credentials_path: str) -> SharedConfig:
    """Read both files; a missing file is empty. Raise ProvideError if a file cannot be read."""
    return SharedConfig(
        _load(config_path, "the AWS config file"), _load(credentials_path, "the AWS credentials file")
    )


def text_in(section: Section, key: str) -> str:
    """Return the value of a key in a section; an empty string if it is missing, or has keys of its own."""
    value = section.get(key, "")
    return value if isinstance(value, str) else ""


def parse_sections(text: str) -> dict[str, Section]:
    """Return the sections of an ini file; a key without a value may have keys of its own, indented below it.

    As in AWS' SDKs, a line that is not a section, a key or a continuation is ignored.
    """
    sections: dict[str, Section] = {}
    section: Section | None = None
    last = ""
    for line in text.removeprefix("\ufeff").splitlines():
        bare = line.strip()
        if not bare or bare[0] in "#;":
            continue
        if line[0] in " \t" and section is not None and last:
            _continue(section, last, bare)
        elif bare[0] == "[":
            name, bracket, _ = bare[1:].partition("]")
            section = sections.setdefault(" ".join(name.split()), {}) if bracket else None
            last = ""
        elif section is not None:
            last, value = _split(bare)
            if last:
                section[last] = value
    return sections


def _continue(section: Section, last: str, line: str) -> None:
    """Add an indented line: a key below the last key, or a continuation of its value."""
    value = section[last]
    if isinstance(value, str) and value:
        section[last] = f"{value}\n{line}"
        return
    name, inner = _split(line)
    if name:
        nested = value if isinstance(value, dict) else {}
        nested[name] = inner
        section[last] = nested


def _split(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        return "", ""
    for mark in (" #", " ;", "\t#", "\t;"):
        value = value.partition(mark)[0]
    return name.strip().lower(), value.strip()


def _load(path: str, what: str) -> dict[str, Section]:
    if not os.path.exists(path):
        return {}
    return parse_sections(read_bounded(path, what).decode("utf-8", "surrogateescape"))


def _named(sections: Mapping[str, Section], kind: str) -> dict[str, Section]:
    return {
        name.removeprefix(kind).strip().strip("\"'"): section
        for name, section in sections.items()
        if name.startswith(f"{kind} ")
    }


def _merge(first: Section, second: Section) -> Section:
    # Keys are replaced together: a session token of one file does not belong to the access key of the other.
    drop = _KEYS if _KEYS[0] in second else ()
    return {name: value for name, value in first.items() if name not in drop} | second
