"""The files ``~/.aws/config`` and ``~/.aws/credentials``, parsed by the rules of AWS' Go SDK."""

from __future__ import annotations

import os

from keyferry.sdk.files import read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Section = dict[str, "str | dict[str, str]"]

__all__ = ["Profiles", "load_profiles", "parse_sections"]

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_BLANKS = " \t"


class Profiles:
    """The profiles, SSO sessions and service sections of both files, by name; its repr shows no values."""

    __slots__ = ("keyed", "profiles", "services", "sso_sessions")

    def __init__(self, config: dict[str, Section], credentials: dict[str, Section]) -> None:
        self.services = _named(config, "services")
        self.sso_sessions = _named(config, "sso-session")
        self.profiles = _named(config, "profile")
        # "[profile default]" takes precedence over "[default]", and the credentials file over both.
        self.profiles.setdefault("default", config.get("default", {}))
        for name, section in credentials.items():
            self.profiles[name] = _merge(self.profiles.get(name, {}), section)
        # The profiles whose access key is in the credentials file, which botocore checks first.
        self.keyed = frozenset(name for name, section in credentials.items() if _KEYS[0] in section)


def load_profiles(config_path: str, credentials_path: str) -> Profiles:
    """Read both files; a missing file is empty. Raise ProvideError if a file cannot be read."""
    return Profiles(
        _load(config_path, "the AWS config file"), _load(credentials_path, "the AWS credentials file")
    )


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
        if line[0] in _BLANKS and section is not None and last:
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
