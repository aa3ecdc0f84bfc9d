"""Arguments that the subcommands of ``agent`` share: the settings, and where the agent listens."""

import os

from keyferry.agent.settings import (
    CONFIG_VARIABLE,
    DEFAULT_CONFIG,
    NAMES,
    SOCKET_VARIABLE,
    Given,
    find_agent_socket,
    flag_of,
)
from keyferry.cli.frame.commands import WrongUsage
from keyferry.errors import EnvironmentProblem

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

# The kubelet's own names of options.
KUBELET_FLAGS = {
    "providerConfig": ("--image-credential-provider-config",),
    "binDir": ("--image-credential-provider-bin-dir",),
}
# The help of each setting, in the order of NAMES.
HELP = {
    "socket": ("PATH", "the socket (default: /run/keyferry/agent.sock, for users in XDG_RUNTIME_DIR)"),
    "socketMode": ("MODE", "permissions of the socket, in octal (default: 0660)"),
    "socketGroup": ("GID", "group of the socket (default: that of the agent)"),
    "providerConfig": ("PATH", "provider config, a file or a directory (default: the node's own)"),
    "binDir": ("DIR", "directory of the plugins (default: the node's own)"),
    "pluginTimeout": ("DURATION", "time limit of one plugin run (default: 1m)"),
    "refreshAhead": ("BOOL", "renew answers before they expire, true or false (default: true)"),
    "refreshIdle": ("DURATION", "do not renew what nobody has asked for in this time (default: 24h)"),
    "cacheEntries": ("NUMBER", "most answers that are cached for each provider (default: 10000)"),
    "cacheBytes": ("NUMBER", "most memory of the answers of each provider (default: 67108864)"),
    "connections": ("NUMBER", "most connections; one user has at most half of them (default: 1024)"),
    "watch": ("BOOL", "reload when a config changes, true or false (default: true)"),
    "handOver": ("BOOL", "take over the cache of a running agent at the start (default: true)"),
    "stopTimeout": ("DURATION", "time for requests under way when the agent stops (default: 10s)"),
    "page": ("ADDRESS", "serve the page here, on loopback, such as 127.0.0.1:7475; or off (default: off)"),
    "metrics": ("ADDRESS:PORT", "serve figures for Prometheus here, without a login; or off (default: off)"),
    "logLevel": ("LEVEL", "debug, info, warning or error; debug has every request (default: info)"),
    "logFormat": ("FORMAT", "text or json (default: text)"),
}


def add_setting_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare one option for each setting."""
    parser.add_argument(
        "--agent-config",
        metavar="FILE",
        help=f"the agent's config (default: {CONFIG_VARIABLE}, else {DEFAULT_CONFIG} if it exists)",
    )
    group = parser.add_argument_group("settings, stronger than the environment and the config")
    for name in NAMES:
        metavar, text = HELP[name]
        group.add_argument(
            f"--{flag_of(name)}", *KUBELET_FLAGS.get(name, ()), metavar=metavar, help=text, dest=name
        )


def add_socket_argument(parser: "argparse.ArgumentParser") -> None:
    """Declare where the agent listens."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help=f"the agent's socket (default: {SOCKET_VARIABLE}, else that of the agent's config, else the usual place)",
    )


def given_settings(args: "argparse.Namespace") -> Given:
    """Return the flags and the environment of this command."""
    flags = {name: text for name in NAMES if (text := getattr(args, name)) is not None}
    return Given(flags, args.agent_config, os.environ)


def socket_path(args: "argparse.Namespace") -> str:
    """Return where the agent is expected; raise WrongUsage if KEYFERRY_AGENT names no socket."""
    chosen: str = args.socket or ""
    try:
        return chosen or find_agent_socket(Given(environ=os.environ))
    except EnvironmentProblem as problem:
        raise WrongUsage(str(problem)) from None
