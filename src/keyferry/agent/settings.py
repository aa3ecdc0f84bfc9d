"""The agent's settings: from a flag, else the environment, else the config file, else the node, else a default."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from math import isfinite

from keyferry._core.gotext import go_strerror
from keyferry._core.values import Value, field
from keyferry._net.agent import AUTO, OFF
from keyferry.api.agentconfig.v1alpha1 import (
    DURATIONS,
    NUMBERS,
    SWITCHES,
    AccessRule,
    AgentConfig,
    ManageRule,
)
from keyferry.api.meta import format_duration, parse_duration
from keyferry.errors import ConfigError, DurationError, EnvironmentProblem, Problem
from keyferry.images.node.discover import discover
from keyferry.images.node.kubelet import BIN_DIR_FLAG, CONFIG_FLAG
from keyferry.images.node.settings import Node
from keyferry.images.provider.agent import check_variable
from keyferry.lint.kinds.agent_config import check_agent_config, why_wrong

DEFAULT_CONFIG = "/etc/keyferry/agent.yaml"
CONFIG_VARIABLE = "KEYFERRY_AGENT_CONFIG"
# The variable that also tells clients where the agent is.
SOCKET_VARIABLE = "KEYFERRY_AGENT"
_SECOND = 1_000_000_000
_MAX_CONFIG_BYTES = 1 << 20
_MAX_SHOWN = 80
_USUAL_SOCKET = "/run/keyferry/agent.sock"
_EXTENSIONS = (".json", ".yaml", ".yml")
_MAX_BYTES = 16 << 20
DEFAULTS: dict[str, str | int | bool] = {
    "socketMode": "0660",
    "pluginTimeout": 60 * _SECOND,
    "refreshAhead": True,
    "refreshIdle": 24 * 3600 * _SECOND,
    "cacheEntries": 10_000,
    "cacheBytes": 64 * 1024 * 1024,
    "connections": 1024,
    "watch": True,
    "handOver": True,
    "stopTimeout": 10 * _SECOND,
    "page": "off",
    "metrics": "off",
    "logLevel": "info",
    "logFormat": "text",
}
# In the order of the documentation; the paths of the providers are looked for on the node.
NAMES = (
    *("socket", "socketMode", "socketGroup", "providerConfig", "binDir", "pluginTimeout"),
    *("refreshAhead", "refreshIdle", "cacheEntries", "cacheBytes", "connections"),
    *("watch", "handOver", "stopTimeout", "page", "metrics", "logLevel", "logFormat"),
)

_Plain = str | int | bool


class Given(Value):
    """What a start was given: flags by the names of the settings, the path of the config file, the environment."""

    flags: Mapping[str, str] = field(default_factory=dict)
    config_file: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


class AgentSettings(Value):
    """The settings in force, and where each comes from; *config_file* is empty if none was read."""

    values: Mapping[str, _Plain]
    origins: Mapping[str, str]
    config: AgentConfig
    config_file: str = ""
    notes: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """Return a setting as text; empty if it is not set."""
        return str(self.values.get(name, ""))

    def number(self, name: str) -> int:
        """Return a setting that is a number; durations are in nanoseconds."""
        return int(self.values[name])

    def is_on(self, name: str) -> bool:
        """Return a setting that is on or off."""
        return bool(self.values[name])

    def shown(self, name: str) -> str:
        """Return a setting as it is written in a config file; empty if it is not set."""
        value = self.values.get(name, "")
        if name in DURATIONS:
            return format_duration(int(value))
        return str(value).lower() if isinstance(value, bool) else str(value)

    def place_options(self) -> tuple[str, ...]:
        """Return the options with which other commands have the same provider config and bin dir.

        What was found on the node, they find as well.
        """
        options: list[str] = []
        for name in ("providerConfig", "binDir"):
            if self.origins[name] in (self.config_file, variable_of(name), f"flag --{flag_of(name)}"):
                options += (f"--{flag_of(name)}", self.text(name))
        return tuple(options)

    def socket_options(self, path: str) -> tuple[str, ...]:
        """Return the options with which root and the agent's user reach the agent at *path*; none if both find it."""
        is_found = path == self.text("socket") and self.origins["socket"] == DEFAULT_CONFIG
        return () if is_found or path == _USUAL_SOCKET else ("--socket", path)


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    if name == "socket":
        return SOCKET_VARIABLE
    if name in ("providerConfig", "binDir"):
        return "KEYFERRY_CONFIG" if name == "providerConfig" else "KEYFERRY_BIN_DIR"
    return "KEYFERRY_AGENT_" + "".join(f"_{each}" if each.isupper() else each for each in name).upper()


def describe_users(rule: AccessRule | ManageRule) -> str:
    """Return the users and groups of a rule, by their numbers."""
    return " ".join((*(f"uid:{uid}" for uid in rule.uids), *(f"gid:{gid}" for gid in rule.gids)))


def default_socket(environ: Mapping[str, str], uid: int) -> str:
    """Return the path of the socket if none is set: for root, or else for this user."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if uid == 0 or not os.path.isabs(runtime):
        return _USUAL_SOCKET
    return os.path.join(runtime, "keyferry", "agent.sock")


def find_agent_socket(given: Given) -> str:
    """Return where an agent listens that is given the same; a config that it would refuse is no obstacle.

    Raise EnvironmentProblem if KEYFERRY_AGENT counts and names no socket.
    """
    if "socket" not in given.flags:
        check_variable(given.environ)
    for _, text in _texts(given, "socket"):
        return text
    try:
        named = check_agent_config("", _read_file(config_path(given))).config.settings.get("socket")
    except (OSError, EnvironmentProblem):
        named = None
    return str(named or default_socket(given.environ, os.geteuid()))


def socket_options(path: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options with which a command of this user asks the agent at *path*; none if it does by itself."""
    try:
        usual = find_agent_socket(Given(environ=environ))
    except EnvironmentProblem:
        usual = ""
    return () if path == usual else ("--socket", os.path.abspath(path))


def resolve_settings(given: Given, *, node: Node | None = None, uid: int | None = None) -> AgentSettings:
    """Return the settings in force; raise ConfigError with every wrong value, EnvironmentProblem if a file is missing.

    *node* has the running kubelets, whose provider config is used if no other is set.
    """
    path, config = _read_config(given)
    values: dict[str, _Plain] = dict(DEFAULTS)
    origins = dict.fromkeys(DEFAULTS, "default")
    values["socket"] = default_socket(given.environ, os.geteuid() if uid is None else uid)
    origins["socket"] = "default"
    problems: list[Problem] = []
    for name, value in config.settings.items():
        values[name], origins[name] = value, path
    for name in NAMES:
        for origin, text in _texts(given, name):
            try:
                values[name], origins[name] = _parse(name, text), origin
            except ValueError as error:
                problems.append(Problem(origin, str(error)))
    if problems:
        raise ConfigError(tuple(problems))
    return _discover(
        AgentSettings(values=values, origins=origins, config=config, config_file=path), given, node
    )


def _texts(given: Given, name: str) -> list[tuple[str, str]]:
    """Return the origins and texts of a setting, the strongest last."""
    variable = variable_of(name)
    text = given.environ.get(variable, "")
    if name == "socket" and text in (AUTO, OFF):
        text = ""  # the clients' words mean nothing here
    found = [(variable, text)] if text else []
    if name in given.flags:
        found.append((f"flag --{flag_of(name)}", given.flags[name]))
    return found


def flag_of(name: str) -> str:
    """Return the option of a setting, without its dashes."""
    if name == "providerConfig":
        return "config"
    return "".join(f"-{each.lower()}" if each.isupper() else each for each in name)


def _parse(name: str, text: str) -> _Plain:
    value: _Plain = text
    if name in DURATIONS:
        value = _parse_duration(text)
    elif name in NUMBERS:
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"found {text[:_MAX_SHOWN]!r}, expected a whole number")
        value = int(text[:_MAX_SHOWN])
    elif name in SWITCHES:
        if text not in ("true", "false"):
            raise ValueError(f"found {text[:_MAX_SHOWN]!r}, expected true or false")
        value = text == "true"
    wrong = why_wrong(name, value)
    if wrong:
        raise ValueError(wrong)
    return value


def _parse_duration(text: str) -> int:
    """Parse a Go duration; a bare number is in seconds, as in the other commands."""
    try:
        seconds = float(text)
        if isfinite(seconds):
            return int(seconds * _SECOND)
    except ValueError:
        pass
    try:
        return parse_duration(text)
    except DurationError as error:
        message = error.message
    raise ValueError(message)


def config_path(given: Given) -> str:
    """Return where the config file is, or would be."""
    return given.config_file or given.environ.get(CONFIG_VARIABLE, "") or DEFAULT_CONFIG


def config_files(path: str) -> list[str]:
    """Return *path* and, if it is a folder, the config files in it."""
    try:
        names = os.listdir(path)
    except OSError:
        return [path]
    return [path, *sorted(os.path.join(path, name) for name in names if name.endswith(_EXTENSIONS))]


def check_config_files(path: str) -> None:
    """Raise EnvironmentProblem if a file cannot be read to its end at once: a pipe, a device, or a huge one."""
    for name in config_files(path):
        try:
            found = os.stat(name)
        except OSError:
            continue  # whoever reads it says why
        if stat.S_ISREG(found.st_mode) and found.st_size > _MAX_BYTES:
            raise EnvironmentProblem(f"{name!r} has more than {_MAX_BYTES} bytes")
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise EnvironmentProblem(f"{name!r} is neither a file nor a folder")


def _read_file(path: str) -> bytes:
    check_config_files(path)
    with open(path, "rb") as stream:
        data = stream.read(_MAX_CONFIG_BYTES + 1)
    if len(data) > _MAX_CONFIG_BYTES:
        raise EnvironmentProblem(f"{path}: is larger than {_MAX_CONFIG_BYTES} bytes")
    return data


def _read_config(given: Given) -> tuple[str, AgentConfig]:
    """Return the path and content of the config file; an empty path if there is none at the default place."""
    path = config_path(given)
    try:
        data = _read_file(path)
    except FileNotFoundError:
        if not (given.config_file or given.environ.get(CONFIG_VARIABLE)):
            return "", AgentConfig()
        raise EnvironmentProblem(f"{path}: the agent's config does not exist") from None
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot be read: {go_strerror(error)}") from None
    checked = check_agent_config(path, data)
    if checked.refusals:
        raise ConfigError(checked.refusals)
    return _absolute(path), checked.config


def _absolute(path: str) -> str:
    """Return a path for other processes; a link before ``..`` is the kernel's to follow, so nothing is cut out."""
    if not path or os.path.isabs(path):
        return path
    try:
        return os.path.join(os.getcwd(), path.removeprefix("./").lstrip("/"))
    except OSError:
        return path  # the current folder is gone; whoever reads the path says so


def _discover(settings: AgentSettings, given: Given, node: Node | None) -> AgentSettings:
    """Fill in the provider config and the bin dir; raise EnvironmentProblem if they are not found."""
    named = {name: _absolute(settings.text(name)) or None for name in ("providerConfig", "binDir")}
    file = config_path(given)
    found = discover(
        named["providerConfig"],
        named["binDir"],
        environ=given.environ,
        node=node,
        advice=f"give {CONFIG_FLAG} or KEYFERRY_CONFIG, or set providerConfig in {file}",
        bin_dir_advice=f"give {BIN_DIR_FLAG} or KEYFERRY_BIN_DIR, or set binDir in {file}",
    )
    values, origins = dict(settings.values), dict(settings.origins)
    places = {
        "providerConfig": (found.config, found.config_from),
        "binDir": (found.bin_dir, found.bin_dir_from),
    }
    for name, (path, origin) in places.items():
        values[name] = named[name] or _absolute(path)
        if named[name] is None:
            origins[name] = origin
    return AgentSettings(
        values=values,
        origins=origins,
        config=settings.config,
        config_file=settings.config_file,
        notes=found.notes,
    )
