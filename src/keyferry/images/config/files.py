"""Provider configs from one file or a directory of files, merged as in the kubelet."""

from __future__ import annotations

from functools import cached_property

from keyferry._core.bounded import TooLargeError, read_path
from keyferry._core.gotext import go_strerror, quote
from keyferry._core.paths import Path
from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig import v1
from keyferry.errors import ConfigError, Kind, MatchError, Problem
from keyferry.images.config.contents import UnreadableError, config_files, config_hash
from keyferry.images.config.decode import ConfigFile, decode_file, refused
from keyferry.images.match.rules import Pattern, parse_pattern


class ProviderLocation(Value):
    """The file and index where a provider is configured."""

    file: ConfigFile
    index: int

    def problem(self, at: Path, problem: Problem) -> Problem:
        """Return *problem* with the position of the path *at* inside this provider."""
        return self.file.problem(("providers", self.index, *at), problem)


class ReadConfig(Value):
    """A config before validation; if it has ``problems``, Kubernetes would have stopped here."""

    path: str
    files: tuple[ConfigFile, ...] = ()
    providers: tuple[v1.CredentialProvider, ...] = ()
    locations: tuple[ProviderLocation, ...] = field(default=(), repr=False)
    problems: tuple[Problem, ...] = ()
    kubernetes_text: str = field(default="", repr=False)  # may quote a whole file
    kind: Kind | None = None

    @cached_property
    def patterns(self) -> tuple[tuple[Pattern | MatchError, ...], ...]:
        """The parsed patterns of each provider, with the error in place of a pattern that does not parse."""
        return tuple(tuple(map(_parse_pattern, provider.match_images or ())) for provider in self.providers)

    @property
    def hash(self) -> str:
        """The hash that the kubelet exports, or an empty string if no file was read."""
        return config_hash(file.data for file in self.files) if self.files else ""

    def raise_for_problems(self) -> None:
        """Raise ConfigError with all problems, if there are any."""
        if self.problems:
            raise ConfigError(self.problems, self.kubernetes_text)


def _parse_pattern(text: str) -> Pattern | MatchError:
    try:
        return parse_pattern(text)
    except MatchError as error:
        return error


def read_config(path: str, data: bytes | None = None) -> ReadConfig:
    """Read the file or directory at *path*; problems are part of the result.

    *data* is the content of a file that was read already, such as a pipe, which cannot be read again.
    """
    try:
        files = tuple(map(_read_file, config_files(path))) if data is None else (decode_file(path, data),)
    except UnreadableError as error:
        return _unread(path, error.problem)
    providers, locations, clashes = _merge(files)
    problems = (*(problem for file in files for problem in file.problems), *clashes)
    first = next((file for file in files if file.kubernetes_text), None)
    text, kind = (first.kubernetes_text, first.kind) if first else ("", None)
    if clashes and not first:
        text, kind = clashes[0].kubernetes_text, Kind.OTHER
    return ReadConfig(path, files, providers, locations, problems, text, kind)


def _unread(path: str, problem: Problem) -> ReadConfig:
    return ReadConfig(path, problems=(problem,), kubernetes_text=problem.kubernetes_text, kind=problem.kind)


def _read_file(path: str) -> ConfigFile:
    try:
        data = read_path(path)
    except OSError as error:
        message = f"cannot be read: {go_strerror(error)}"
        # Kubernetes has no limit, and so no text for it.
        is_limit = isinstance(error, TooLargeError)
        text = (
            message if is_limit else f"unable to read file {quote(path)}: open {path}: {go_strerror(error)}"
        )
        problem = Problem("", message, code="KF101", kubernetes_text=text, file=path)
        return refused(path, b"", None, problem, text)
    return decode_file(path, data)


def _merge(
    files: tuple[ConfigFile, ...],
) -> tuple[tuple[v1.CredentialProvider, ...], tuple[ProviderLocation, ...], tuple[Problem, ...]]:
    """Return all providers in order, their locations, and a problem for each repeated name."""
    seen: dict[str, ProviderLocation] = {}
    providers: list[v1.CredentialProvider] = []
    locations: list[ProviderLocation] = []
    clashes: list[Problem] = []
    for file in files:
        for index, provider in enumerate(file.config.providers):
            location = ProviderLocation(file, index)
            if provider.name in seen:
                clashes.append(_clash(provider.name, location, seen[provider.name]))
            seen.setdefault(provider.name, location)
            providers.append(provider)
            locations.append(location)
    return tuple(providers), tuple(locations), tuple(clashes)


def _clash(name: str, location: ProviderLocation, first: ProviderLocation) -> Problem:
    text = f"duplicate provider name {quote(name)} found in configuration file(s)"
    message = f"the name {name!r} is already used by providers[{first.index}] of {first.file.path}"
    path = f"providers[{location.index}].name"
    return location.problem(("name",), Problem(path, message, code="KF111", kubernetes_text=text))
