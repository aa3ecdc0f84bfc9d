"""Arguments that the subcommands of ``agent`` share: the settings, and where the agent listens."""

from __future__ import annotations

import os

from keyferry._net.listen_address import LONGEST_SOCKET_PATH
from keyferry.agent.settings import (
    CONFIG_VARIABLE,
    DEFAULT_CONFIG,
    DEFAULTS,
    NAMES,
    SOCKET_VARIABLE,
    Given,
    find_agent_socket,
    flag_of,
)
from keyferry.api.agentconfig.v1alpha1 import DURATIONS
from keyferry.api.meta import format_duration
from keyferry.cli.exits import WrongUsage
from keyferry.errors import EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

# The kubelet's own names of options.
KUBELET_FLAGS = {
    "providerConfig": ("--image-credential-provider-config",),
    "binDir": ("--image-credential-provider-bin-dir",),
}
# The words for a value of each setting, and its help without the default, in the order of NAMES.
HELP = {
    "socket": ("PATH", f"the socket, with a path of at most {LONGEST_SOCKET_PATH} bytes"),
    "socketMode": ("MODE", "permissions of the socket, in octal"),
    "socketGroup": ("GID", "group of the socket"),
    "providerConfig": ("PATH", "provider config, a file or a directory"),
    "binDir": ("DIR", "directory of the plugins"),
    "pluginTimeout": ("DURATION", "time limit of one plugin run"),
    "refreshAhead": ("BOOL", "renew answers before they expire, true or false"),
    "refreshIdle": ("DURATION", "do not renew answers that nobody has asked for in this time"),
    "cacheEntries": (
        "NUMBER",
        "maximum number of cached answers of each provider, and as many again for tenants",
    ),
    "cacheBytes": (
        "NUMBER",
        "maximum memory of the answers of each provider, in bytes, as much again for tenants, and once more for all",
    ),
    "connections": ("NUMBER", "maximum number of connections; one user has at most half of them"),
    "watch": ("BOOL", "reload when a config changes, true or false"),
    "handOver": ("BOOL", "take over the cache of a running agent at the start"),
    "stopTimeout": ("DURATION", "time for requests in progress when the agent stops"),
    "page": ("ADDRESS", "serve the page here, on loopback, such as 127.0.0.1:7475; or off"),
    "metrics": ("ADDRESS:PORT", "serve metrics for Prometheus here, without a login; or off"),
    "logLevel": ("LEVEL", "debug, info, warning or error; debug has every request"),
    "logFormat": ("FORMAT", "text or json"),
}
# Of the settings whose default depends on the user or the node.
_DEFAULTS = {
    "socket": "/run/keyferry/agent.sock; for users other than root in XDG_RUNTIME_DIR",
    "socketGroup": "that of the agent",
    "providerConfig": "the node's own",
    "binDir": "the node's own",
}


def default_of(name: str) -> str:
    """Return the default of a setting in words, or as it is written in a config file."""
    value = DEFAULTS.get(name)
    if value is None:
        return _DEFAULTS[name]
    if name in DURATIONS:
        return short_duration(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def short_duration(nanoseconds: int) -> str:
    """Return a duration without units that are zero at its end: ``24h``."""
    text = format_duration(nanoseconds)
    for end in ("0s", "0m"):
        if text.endswith(end) and text[-3:-2].isalpha():
            text = text.removesuffix(end)
    return text


def add_setting_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare one option for each setting."""
    parser.add_argument(
        "--agent-config",
        metavar="FILE",
        help=f"the agent's config (default: {CONFIG_VARIABLE}, else {DEFAULT_CONFIG} if it exists)",
    )
    group = parser.add_argument_group("settings, which override the environment and the config")
    for name in NAMES:
        metavar, text = HELP[name]
        group.add_argument(
            f"--{flag_of(name)}",
            *KUBELET_FLAGS.get(name, ()),
            metavar=metavar,
            help=f"{text} (default: {default_of(name)})",
            dest=name,
        )


def add_socket_argument(parser: argparse.ArgumentParser) -> None:
    """Declare where the agent listens."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help=f"the agent's socket (default: {SOCKET_VARIABLE}, else that of the agent's config, else the usual place)",
    )


def given_settings(args: argparse.Namespace) -> Given:
    """Return the flags and the environment of this command."""
    flags = {name: text for name in NAMES if (text := getattr(args, name)) is not None}
    return Given(flags=flags, config_file=args.agent_config, environ=os.environ)


def socket_path(args: argparse.Namespace) -> str:
    """Return where the agent is expected; raise WrongUsage if KEYFERRY_AGENT names no socket."""
    chosen: str = args.socket or ""
    try:
        return chosen or find_agent_socket(Given(environ=os.environ))
    except EnvironmentProblem as problem:
        raise WrongUsage(str(problem)) from None
