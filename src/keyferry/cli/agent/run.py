"""Run the agent in the foreground."""

from __future__ import annotations

import sys

from keyferry.cli.agent.arguments import add_setting_arguments, given_settings
from keyferry.cli.exits import Exit
from keyferry.errors import EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Run the agent in the foreground, until SIGTERM or SIGINT; SIGHUP reloads. Its log goes to standard error.

Each setting comes from its option, else from the environment (KEYFERRY_AGENT_CACHE_ENTRIES for --cache-entries;
KEYFERRY_AGENT for --socket), else from the agent's config, else from the node, else from a default. Sockets
that systemd passes (LISTEN_FDS) are used in place of --socket. An agent that already listens is replaced without
a refused connection; its clients stay connected to it until you stop it.

With --page 127.0.0.1:PORT, the agent also serves a page for browsers on this machine: whether all is well, what
is cached and until when, the last requests and their reasons. It shows no secret, and opens only with a link from
'keyferry agent page'.

Plugins run as the agent's user, with its environment. The agent needs the extra 'agent', and Linux."""

EXAMPLES = """\
examples:
  sudo keyferry agent run
  sudo keyferry agent run --log-level debug --log-format json
  sudo keyferry agent run --page 127.0.0.1:7475
  keyferry agent run --socket /tmp/me/agent.sock --config providers.yaml --bin-dir ./plugins"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry agent run``."""
    add_setting_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run until a signal."""
    if sys.platform != "linux":
        raise EnvironmentProblem("the agent needs Linux, whose kernel tells who is calling")
    try:
        from keyferry.agent.log import AgentLog
        from keyferry.agent.process import run_agent
    except ImportError as error:
        raise EnvironmentProblem(str(error)) from None
    run_agent(given_settings(args), AgentLog())
    return Exit.OK
