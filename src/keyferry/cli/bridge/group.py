"""Connect the kubelet and docker's tools to the node agent, and disconnect them."""

from __future__ import annotations

from keyferry.cli.run import Entry, add_subcommand, run_subcommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Connect other programs of a node to the node agent, and disconnect them. Everything still works when the agent
is down: what is installed then does the work without it.

  kubelet  put a shim in front of a plugin, or beside the plugins, in the kubelet's folder
  docker   let docker, podman and other tools use docker-credential-keyferry

'keyferry bridge SUBCOMMAND --help' shows the options of each."""

EXAMPLES = """\
examples:
  sudo keyferry bridge kubelet install --in-front-of ecr-credential-provider
  sudo keyferry bridge kubelet status
  sudo keyferry bridge kubelet uninstall ecr-credential-provider
  keyferry bridge docker install 123456789012.dkr.ecr.eu-west-1.amazonaws.com"""

# One module for each, so that a subcommand imports only its own code.
SUBCOMMANDS = {
    "kubelet": Entry(
        module="keyferry.cli.bridge.kubelet", summary="put a shim into the kubelet's folder of plugins"
    ),
    "docker": Entry(
        module="keyferry.cli.bridge.docker", summary="let docker's tools use docker-credential-keyferry"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run one subcommand; report its errors without a hint."""
    return run_subcommand("bridge", args, SUBCOMMANDS)
