"""Run the node agent, and look after it."""

from __future__ import annotations

from keyferry.cli.run import Entry, add_subcommand, run_subcommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Run the node agent, and look after it. The agent is one process for the whole node. It keeps the credentials of
the node's providers in memory, gives them to every user whom its rules allow, renews them before they expire, and
picks up changes of the config. Nothing depends on it: without it everything works as before, only slower.

  run      run the agent in the foreground, until SIGTERM; SIGHUP reloads
  status   show providers, cache, next refreshes, last failures and who asked
  reload   read all configs again; a broken config is refused, and the old one stays
  config   show every setting in force, and where its value comes from
  page     print a link to the agent's page, which works once

'keyferry lint /etc/keyferry/agent.yaml' lists every problem of the agent's config."""

EXAMPLES = """\
examples:
  sudo keyferry agent run
  keyferry agent config --agent-config ./agent.yaml
  sudo keyferry agent status --watch
  sudo keyferry agent reload"""

# One module for each, so that a subcommand imports only its own code.
SUBCOMMANDS = {
    "run": Entry(module="keyferry.cli.agent.run", summary="run the agent in the foreground"),
    "status": Entry(
        module="keyferry.cli.agent.status", summary="show providers, cache, refreshes, failures and callers"
    ),
    "reload": Entry(module="keyferry.cli.agent.reload", summary="read all configs again"),
    "config": Entry(
        module="keyferry.cli.agent.config", summary="show every setting in force, and its origin"
    ),
    "page": Entry(
        module="keyferry.cli.agent.page", summary="print a link to the agent's page, which works once"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run one subcommand; report its errors without a hint."""
    return run_subcommand("agent", args, SUBCOMMANDS)
